"""Checkpoints of a run, each stored against the one before it, as the proxy would store them.

A run is a directory or s3://BUCKET/PREFIX. Keys: PREFIX/step-N/checkpoint.pt; in a directory RUN/checkpoints/step-N/....
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import torch

from s4weights.codec.errors import ConfigError
from s4weights.codec.types import Level
from s4weights.engine import open_engine

from .body_pipe import BodyPipe, saved_bytes
from .body_reader import RandomFile
from .state_writer import StateWriter
from .targets import Named, parse_level, parse_name

if TYPE_CHECKING:
    from s4weights.proxy.objects.types import LogicalObject

    from .run_store import RunStore

_NAME: Final = re.compile(r"step-(\d+)/checkpoint\.pt")
_BUFFER_BYTES: Final = 1 << 20


def save_checkpoint(
    state: object, run: Named, *, step: int, level: str | Level = "balanced", endpoint: str | None = None
) -> None:
    """Store state as a step of a run; a step that is there is replaced. Visible when it is whole.

    level, endpoint: as for s4weights.save. Raises: ConfigError, ImportError without the proxy extra, what torch.save raises,
    S3Error, UpstreamError.
    """
    name, coded = step_name(step), parse_level(level)
    put_checkpoint(run, name, saved_bytes(state), StateWriter.of(state, open_engine()).write, coded, endpoint)


def put_checkpoint(
    run: Named, name: str, length: int, write: Callable[[BodyPipe], object], level: Level, endpoint: str | None
) -> None:
    """Store what `write` writes, length bytes, under a name within the run. Raises: as save_checkpoint."""
    with _opened(run, level, endpoint, make=True) as store:
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


def load_checkpoint(
    run: Named,
    step: int | None = None,
    map_location: Any = None,
    weights_only: bool = True,
    *,
    endpoint: str | None = None,
) -> Any:
    """The state of a step, by default the last one. Raises: FileNotFoundError, FormatError, and as save_checkpoint."""
    with _opened(run, Level.BALANCED, endpoint) as store:
        steps = store.submit(_steps(store)).result()
        wanted = step if step is not None else max(steps, default=None)
        if wanted not in steps:
            raise FileNotFoundError(
                f"{run}: expected {'a checkpoint' if step is None else f'step {step}'}, found the steps {steps}"
            )
        found = store.submit(store.objects.resolve(store.bucket, store.prefix + step_name(wanted))).result()
        raw = _ObjectFile(store, found)
        try:
            with io.BufferedReader(raw, _BUFFER_BYTES) as body:
                return torch.load(  # nosec B614 - weights_only unless the caller says otherwise
                    cast(BinaryIO, body), map_location=map_location, weights_only=weights_only
                )
        except Exception as error:
            if raw.fault is not None and raw.fault is not error:
                raise raw.fault from error
            raise


def list_checkpoints(run: Named, *, endpoint: str | None = None) -> list[int]:
    """The steps of a run, in order; none where there is no such run."""
    try:
        with _opened(run, Level.BALANCED, endpoint) as store:
            return store.submit(_steps(store)).result()
    except FileNotFoundError:
        return []


def prune_checkpoints(
    run: Named, *, keep: int, keep_every: int | None = None, endpoint: str | None = None
) -> list[int]:
    """Remove all but the last `keep` steps, and but those that `keep_every` divides. Returns the steps removed.

    What others are stored against stays, hidden, until nothing needs it. Raises: ConfigError, S3Error, UpstreamError.
    """
    if keep < 1 or (keep_every is not None and keep_every < 1):
        raise ConfigError(f"expected to keep at least 1, found keep={keep}, keep_every={keep_every}")
    with _opened(run, Level.BALANCED, endpoint) as store:
        steps = store.submit(_steps(store)).result()
        removed = [one for one in steps[:-keep] if keep_every is None or one % keep_every]
        for one in removed:
            store.submit(store.objects.delete(store.bucket, store.prefix + step_name(one))).result()
    return removed


@contextmanager
def _opened(run: Named, level: Level, endpoint: str | None, *, make: bool = False) -> Iterator[RunStore]:
    try:
        from .run_store import open_store
    except ModuleNotFoundError as error:
        raise ImportError(f"checkpoints of a run need {error.name}: pip install 's4weights[proxy,torch]'") from error
    with open_store(parse_name(run), level, endpoint, make=make) as store:
        yield store


async def _steps(store: RunStore) -> list[int]:
    from s4weights.proxy.upstream.protocol import Listing

    steps: list[int] = []
    page = Listing([], [], "")
    while page.next_after is not None:
        page = await store.objects.store.upstream.list_objects(
            store.bucket, prefix=f"{store.prefix}step-", after=page.next_after, token=page.next_token
        )
        names = (_NAME.fullmatch(entry.key.removeprefix(store.prefix)) for entry in page.entries)
        steps += [int(name[1]) for name in names if name is not None]
    return sorted(steps)


def step_name(step: int) -> str:
    """The key of a step within its run. Raises: ConfigError."""
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ConfigError(f"step: expected a number from 0 on, found {step!r}")
    return f"step-{step}/checkpoint.pt"


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
