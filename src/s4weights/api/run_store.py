"""The proxy's own objects, in this process, for the length of one call.

Nothing of it is left when a call has ended, neither thread nor lock, so that a fork between calls takes nothing along. The
GPU's engine, where one is used, is the process's; a child makes one of its own.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar

from s4weights.codec.types import Level
from s4weights.engine import name_in_callers_process
from s4weights.proxy.config import Settings
from s4weights.proxy.forks import close_here, close_in_children
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import Upstream

from .s3 import open_client
from .targets import S3Uri

_T = TypeVar("_T")
_BUCKET: Final = "checkpoints"
_MEMORY_BYTES: Final = 192 << 20
_LOCK: Final = ".s4weights-calls"
_STATE: Final = ".s4weights-state"
# A container is kept on disk while it is written, for its own later frames, if it takes at most half of this.
_OWN_DISK_SHARE: Final = 1
_TEMPORARY_DISK_SHARE: Final = 4


@dataclass(frozen=True, slots=True)
class RunStore:
    """prefix: of the run's keys, empty or with a slash at its end."""

    objects: Objects
    bucket: str
    prefix: str
    loop: asyncio.AbstractEventLoop

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run work on the store's loop; for any thread but the loop's."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)


@contextmanager
def open_store(run: Path | S3Uri, level: Level, endpoint: str | None, *, make: bool = False) -> Iterator[RunStore]:
    """make: the directory of a run that is not there yet.

    One call at a time works on a directory, others wait. Raises: FileNotFoundError; ConfigError where a proxy serves it.
    """
    if isinstance(run, Path):
        if make:
            (run / _BUCKET).mkdir(parents=True, exist_ok=True)
        elif not (run / _BUCKET).is_dir():
            raise FileNotFoundError(f"{run}: expected a directory that save_checkpoint made, found none")
    turn = _turn(run / _LOCK) if isinstance(run, Path) else nullcontext()
    with turn, _state_of(run) as (state, cache_bytes), _running_loop() as loop:
        # Nothing at work between calls: what is rewritten in the background is the proxy's to do.
        settings = Settings(
            upstream=str(run),
            state_dir=state,
            engine=name_in_callers_process(),
            level=level.value,
            memory_bytes=_MEMORY_BYTES,
            rebase=False,
            cache_bytes=cache_bytes,
        )
        objects = asyncio.run_coroutine_threadsafe(_open(run, endpoint, settings), loop).result()
        try:
            if isinstance(run, Path):
                yield RunStore(objects, _BUCKET, "", loop)
            else:
                yield RunStore(objects, run.bucket, run.key.strip("/") + "/", loop)
        finally:
            asyncio.run_coroutine_threadsafe(_close(objects), loop).result()


@contextmanager
def _state_of(run: Path | S3Uri) -> Iterator[tuple[Path, int]]:
    """A folder for the length of a call, and how much may be kept there; beside a directory's run, in turn."""
    if isinstance(run, Path):
        state = run / _STATE
        shutil.rmtree(state, ignore_errors=True)  # of a process that died
        state.mkdir()
        try:
            yield state, shutil.disk_usage(state).free // _OWN_DISK_SHARE
        finally:
            shutil.rmtree(state, ignore_errors=True)
        return
    with tempfile.TemporaryDirectory(prefix="s4weights-") as folder:
        yield Path(folder), shutil.disk_usage(folder).free // _TEMPORARY_DISK_SHARE


async def _open(run: Path | S3Uri, endpoint: str | None, settings: Settings) -> Objects:
    upstream = DirectoryUpstream(run) if isinstance(run, Path) else _bucket_upstream(endpoint)
    await upstream.start()
    try:
        objects = Objects(upstream, settings, Metrics())
        await objects.start()
    except BaseException:
        await upstream.close()
        raise
    return objects


async def _close(objects: Objects) -> None:
    try:
        await objects.close()
    finally:
        await objects.store.upstream.close()


def _bucket_upstream(endpoint: str | None) -> Upstream:
    from s4weights.proxy.upstream.bucket import BucketUpstream

    # Where boto3 would go: the configuration of AWS's tools has one reader.
    found = open_client(endpoint).meta
    if endpoint is None and ".amazonaws.com" in found.endpoint_url:
        return BucketUpstream(region=found.region_name)
    return BucketUpstream(endpoint=found.endpoint_url.rstrip("/"))


@contextmanager
def _running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="s4weights", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Wait for the other threads and processes that work on this directory."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    close_in_children(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        close_here(fd)
