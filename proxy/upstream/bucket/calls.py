"""Calls that may be made again: deadlines, pauses with full jitter, Retry-After, and an end to it all."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from s4weights.proxy.errors import S3Error, UpstreamError

from .circuit import Circuit
from .faults import CHANGED_ON_THE_WAY, translated

_log = logging.getLogger(__name__)

ATTEMPTS: Final = 6
CHANGED_ATTEMPTS: Final = 3
# Source: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/ (full jitter).
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 8.0
# Nothing healthy is slower; S3 gives some 80 MB/s a connection. A body adds its size by this to a deadline.
SLOWEST_BYTES_S: Final = 64 << 10
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Patience:
    """silence_s: how long a connection may say nothing, or take nothing. total_s: after so long a call is not made again."""

    silence_s: float = 30.0
    total_s: float = 50.0

    @property
    def long_silence_s(self) -> float:
        """The same where the bucket has work to do: it completes, or copies."""
        return 5 * self.silence_s

    def deadline_s(self, size: int = 0) -> float:
        """How long one try may take that moves size bytes, however busy it looks; waiting for a connection included."""
        return self.long_silence_s + size / SLOWEST_BYTES_S


def pause_s(attempt: int, error: UpstreamError | None = None) -> float:
    """How long to wait after the attempt of this number: at random, and at least what the bucket asked for."""
    drawn = random.uniform(0, min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (attempt - 1)))  # noqa: S311 - jitter
    return max(drawn, error.retry_after_s or 0.0) if error is not None else drawn


class Calls:
    """Makes the calls of one bucket store."""

    def __init__(self, circuit: Circuit, patience: Patience) -> None:
        self.circuit = circuit
        self.patience = patience

    async def make(
        self,
        what: str,
        call: Callable[[], Awaitable[_T]],
        *,
        size: int | None = 0,
        on_repeat: Callable[[], None] | None = None,
    ) -> _T:
        """Make a call, and make it again where the bucket could not be reached or what arrived was changed on its way.

        size: bytes that it moves, None where it watches its time itself. on_repeat: called after a try that may have been
        carried out without an answer.
        Raises: S3Error, with `after_fault` where an earlier try may have been carried out; UpstreamError, with `was_repeated`.
        """
        began_s = time.monotonic()
        after_fault = False
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self.once(what, call, size)
            except UpstreamError as error:
                wait_s = pause_s(attempt, error)
                out_of_time = time.monotonic() - began_s + wait_s > self.patience.total_s
                if attempt == ATTEMPTS or out_of_time or not error.may_pass or self.circuit.is_open:
                    error.was_repeated = True
                    raise
                after_fault = True
                _log.info("made again in %.1f s: %s", wait_s, error)
                if on_repeat is not None:
                    on_repeat()
            except S3Error as error:
                error.after_fault = after_fault
                if error.code not in CHANGED_ON_THE_WAY:
                    raise
                if attempt >= CHANGED_ATTEMPTS:
                    raise UpstreamError(f"{what}: what arrived is not what was sent: {error}") from error
                wait_s = 0.0
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")

    async def once(self, what: str, call: Callable[[], Awaitable[_T]], size: int | None = 0) -> _T:
        """Make a call, once. size: None where it watches its time itself. Raises: S3Error, UpstreamError."""
        try:
            with translated(what):
                async with asyncio.timeout(None if size is None else self.patience.deadline_s(size)):
                    answer = await call()
        except UpstreamError as error:
            self.circuit.failed(str(error))
            raise
        except S3Error:
            self.circuit.answered()
            raise
        self.circuit.answered()
        return answer

    async def stream(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Make a call with a body that can be sent but once, and that may be the one that fails."""
        try:
            answer = await call()
        except UpstreamError as error:
            self.circuit.failed(str(error))
            raise
        self.circuit.answered()
        return answer
