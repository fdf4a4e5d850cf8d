"""Work in a thread outlives who asked for it: it is waited for, and what it made is taken back."""

from __future__ import annotations

import asyncio
import threading

import pytest

from s4weights.proxy.threads import in_thread


async def test_a_caller_that_is_cancelled_waits_for_the_thread_and_takes_its_work_back():
    begun, may_end, made, taken_back = threading.Event(), threading.Event(), [], []

    def work() -> str:
        begun.set()
        assert may_end.wait(10)
        made.append("file")
        return "file"

    task = asyncio.create_task(in_thread(work, undo=taken_back.append))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):  # by whoever else waits, too
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert made == taken_back == ["file"]


async def test_what_fails_has_nothing_to_take_back():
    def work() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        await in_thread(work, undo=lambda _: pytest.fail("nothing was made"))
    assert await in_thread(lambda: 7) == 7
