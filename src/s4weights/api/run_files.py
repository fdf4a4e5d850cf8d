"""Files of a run, stored by the proxy's own code in this process, each against one before it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from s4weights.codec.types import Level

from .body_pipe import BodyPipe
from .body_reader import RandomFile
from .s3 import is_proxys_refusal, open_client, proxy_refused
from .steps import find_step, markers_first, remove_files, step_name
from .targets import S3Uri

if TYPE_CHECKING:
    from s4weights.proxy.objects.types import LogicalObject

    from .run_store import RunStore

_BUFFER_BYTES: Final = 1 << 20


def put_file(
    run: Path | S3Uri, name: str, length: int, write: Callable[[BodyPipe], object], level: Level, endpoint: str | None
) -> None:
    """Store what `write` writes, length bytes, under a name within the run. Raises: as save_checkpoint."""
    with opened(run, level, endpoint, make=True) as store:
        _put(store, name, length, write)


def put_step(
    run: Path | S3Uri, step: int, length: int, write: Callable[[BodyPipe], object], level: Level, endpoint: str | None
) -> None:
    """As put_file, a step of one file; a sharded one of that number goes when this one is whole."""
    with opened(run, level, endpoint, make=True) as store:
        _put(store, step_name(step), length, write)
        found = store.submit(find_step(store, step)).result()
        store.submit(remove_files(store, step, markers_first(found.names))).result()


def names_of_step(run: Path | S3Uri, step: int, endpoint: str | None) -> list[str]:
    """What there is of a step; nothing where there is no run. Raises: as save_checkpoint."""
    try:
        with opened(run, Level.BALANCED, endpoint) as store:
            return store.submit(find_step(store, step)).result().names
    except FileNotFoundError:
        return []


def clear_step(run: Path | S3Uri, step: int, endpoint: str | None) -> None:
    """All of a step that is ours goes; harmless where there is nothing. Raises: as save_checkpoint."""
    with suppress(FileNotFoundError), opened(run, Level.BALANCED, endpoint) as store:
        found = store.submit(find_step(store, step)).result()
        store.submit(remove_files(store, step, found.in_order_of_removal())).result()


@contextmanager
def open_file(run: Path | S3Uri, name: str, endpoint: str | None) -> Iterator[tuple[BinaryIO, bytes | None]]:
    """The body of a file of the run, and its XXH3-128 where it is stored as a container, which has it.

    Raises: FileNotFoundError, FormatError, and as save_checkpoint.
    """
    with opened(run, Level.BALANCED, endpoint) as store, body_of(store, name) as found:
        yield found


@contextmanager
def opened(run: Path | S3Uri, level: Level, endpoint: str | None, *, make: bool = False) -> Iterator[RunStore]:
    """For some calls. make: as for open_store. Raises: as save_checkpoint."""
    try:
        from .run_store import open_store
    except ModuleNotFoundError as error:
        raise ImportError(f"checkpoints of a run need {error.name}: pip install 's4weights[proxy,torch]'") from error
    from s4weights.proxy.errors import S3Error

    try:
        with open_store(run, level, endpoint, make=make) as store:
            yield store
    except S3Error as error:
        if isinstance(run, S3Uri) and is_proxys_refusal(str(error)):
            raise proxy_refused(run, open_client(endpoint).meta.endpoint_url) from error
        raise


@contextmanager
def body_of(store: RunStore, name: str) -> Iterator[tuple[BinaryIO, bytes | None]]:
    """See open_file; seekable.

    Raises: FileNotFoundError, also in place of what a reader in C++ made of them: FormatError, S3Error.
    """
    from s4weights.proxy.errors import S3Error

    try:
        found = store.submit(store.objects.resolve(store.bucket, store.prefix + name)).result()
    except S3Error as error:
        if error.code != "NoSuchKey":
            raise
        raise FileNotFoundError(f"{store.bucket}/{store.prefix}{name}: expected a file, found none") from error
    raw = _ObjectFile(store, found)
    try:
        with io.BufferedReader(raw, _BUFFER_BYTES) as body:
            yield cast(BinaryIO, body), found.tail.trailer.digest if found.tail is not None else None
    except Exception as error:
        if raw.fault is not None and raw.fault is not error:
            raise raw.fault from error
        raise


def _put(store: RunStore, name: str, length: int, write: Callable[[BodyPipe], object]) -> None:
    body = BodyPipe()
    stored = store.submit(store.objects.put(store.bucket, store.prefix + name, body, length, {}))
    stored.add_done_callback(lambda _: body.stop())
    try:
        write(body)
        body.end()
    except BaseException as error:
        _end(stored, body, error)
        raise
    stored.result()


def _end(stored: Future[Any], body: BodyPipe, error: BaseException) -> None:
    """Wait for a put whose body failed. Raises: the put's own error, where that was what ended the body."""
    failed_first = stored.done()
    if not failed_first:
        body.fail(error)
    fault = stored.exception()
    if failed_first and fault is not None:
        raise fault from error


class _ObjectFile(RandomFile):
    def __init__(self, store: RunStore, found: LogicalObject) -> None:
        super().__init__(found.info.size)
        self._store = store
        self._found = found
        self.fault: Exception | None = None

    def _fill(self, target: memoryview) -> None:
        try:
            self._store.submit(self._copy(target, self._at)).result()
        except Exception as error:
            self.fault = error
            raise

    async def _copy(self, target: memoryview, first: int) -> None:
        at = 0
        async for chunk in self._store.objects.read(self._found, first, len(target)):
            target[at : at + len(chunk)] = chunk
            at += len(chunk)
