"""async_save_checkpoint: copy once, return, store in the background."""

from __future__ import annotations

import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock

import torch

from s4weights.codec.types import Buffer, Level

from .body_pipe import saved_bytes
from .run_files import put_step
from .steps import check_step
from .targets import Named, S3Uri, parse_level, parse_name

_log = logging.getLogger(__name__)


class _Turns:
    """One save in the background at a time: two copies of a state are too many."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.last: Future[None] | None = None


_turns = _Turns()


def _after_fork() -> None:
    # The parent's save is the parent's: a child that waited for it would wait for ever.
    global _turns
    _turns = _Turns()


os.register_at_fork(after_in_child=_after_fork)


def async_save_checkpoint(
    state: object, run: Named, *, step: int, level: str | Level = "balanced", endpoint: str | None = None
) -> Future[None]:
    """save_checkpoint of state as it is now; returns when it is copied to host memory, where it then takes its size once.

    Waits for the save that is under way. The future ends when the checkpoint is visible, or has its error, which is logged as
    well. A process that ends waits for it. Raises: ConfigError, what torch.save raises.
    """
    place = parse_name(run)
    if isinstance(place, Path):
        # The caller's directory may be another one by the time it is written.
        place = place.absolute()
    check_step(step)
    coded = parse_level(level)
    with _turns.lock:
        if _turns.last is not None:
            wait([_turns.last])
        body = _Snapshot(saved_bytes(state))
        torch.save(state, body)  # type: ignore[arg-type]
        pool = ThreadPoolExecutor(1, thread_name_prefix="save")
        saving = pool.submit(_save, body, place, step, coded, endpoint)
        pool.shutdown(wait=False)
        _turns.last = saving
    return saving


def _save(body: _Snapshot, run: Path | S3Uri, step: int, level: Level, endpoint: str | None) -> None:
    try:
        put_step(run, step, len(body.memory), lambda pipe: pipe.write(body.memory), level, endpoint)
    except BaseException as error:
        _log.error("%s: step %s was not saved: %s", run, step, error)
        raise
    finally:
        body.memory = bytearray()


class _Snapshot:
    """A file object over memory of a size that is known."""

    def __init__(self, size: int) -> None:
        self.memory = bytearray(size)
        self._at = 0

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        self.memory[self._at : self._at + len(view)] = view
        self._at += len(view)
        return len(view)

    def flush(self) -> None:
        """It is there already."""
