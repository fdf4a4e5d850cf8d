"""A loop and a bucket whose histories go the same way each time, faults and all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.directory import DirectoryUpstream


class OneThread(asyncio.SelectorEventLoop):
    """Runs what is meant for threads itself, now or some turns later, so that a history goes the same way each time."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(seed)

    def run_in_executor(self, executor: Any, work: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        answer = self.create_future()
        turns, is_late = self._chance.randrange(6), self._chance.random() < 0.5

        def do() -> tuple[Any, Exception | None]:
            try:
                return work(*arguments), None
            except Exception as error:
                return None, error

        def later(turns: int, done: tuple[Any, Exception | None] | None) -> None:
            if turns:
                self.call_soon(later, turns - 1, done)
                return
            result, error = done or do()
            if answer.cancelled():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        self.call_soon(later, turns, None if is_late else do())
        return answer


class Wire:
    """The way to a directory, with the faults that are to come: each call of the bucket takes the next one."""

    def __init__(self, bucket: DirectoryUpstream) -> None:
        self._bucket = bucket
        self.faults: list[str] = []
        self.struck: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._bucket, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        async def call(*arguments: Any, **options: Any) -> Any:
            fault = self.faults.pop(0) if self.faults else ""
            if fault:
                self.struck.append((name, fault))
            if fault == "refused":
                raise S3Error("AccessDenied")
            if fault == "unreachable":
                raise UpstreamError("no answer")
            answer = await method(*arguments, **options)
            if fault == "unanswered":
                raise UpstreamError("no answer")
            return answer

        return call
