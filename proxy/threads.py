"""Work in a thread, which cannot be stopped: whoever waits for it waits to its end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


async def in_thread(
    work: Callable[[], _T], *, undo: Callable[[_T], object] | None = None, executor: Executor | None = None
) -> _T:
    """Run work in a thread, and where the caller is cancelled let it end first.

    Files that a thread uses must not be closed under it: their numbers are given out again, and it would write into another
    file. undo: what is done with a result that nobody waits for any more; where that fails it is logged.
    """
    context = contextvars.copy_context()
    running = asyncio.get_running_loop().run_in_executor(executor, lambda: context.run(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled() and running.exception() is None and undo is not None:
            try:
                undo(running.result())
            except Exception:
                _log.exception("what a thread made for a call that was cancelled stays")
        raise
