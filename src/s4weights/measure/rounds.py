"""Everyone in turn, round after round, so that what slows the machine slows all of them; then medians."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from statistics import median
from typing import TypeAlias

from s4weights.codec.engines import Engine
from s4weights.codec.types import ElementType, Frame

from .blocks import BLOCK_BYTES, join_blocks
from .candidate import Candidate, Maker
from .ours import LEVELS, codec_candidates
from .peers import PEERS, Memcpy, open_peers

ALL = "all"

_Times: TypeAlias = dict[str, list[list[float]]]
"""Step -> round -> seconds of each unit."""


@dataclass(slots=True)
class Result:
    """One candidate on one component. failure: why there are no seconds.

    seconds, least: of a step, the sum over its units (frames or blocks) of each one's median, or least, of all rounds: where
    somebody else had the core for a while, that is one round of one unit.
    """

    component: str
    element: str
    candidate: str
    logical_bytes: int
    stored_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)
    identical: bool = False
    failure: str | None = None

    @property
    def ratio(self) -> float:
        """Logical by stored bytes."""
        return self.logical_bytes / self.stored_bytes if self.stored_bytes else 0.0

    def speed(self, step: str, *, best: bool = False) -> float | None:
        """GB (10^9 bytes) of body a second; None where the step was not measured."""
        seconds = (self.least if best else self.seconds).get(step)
        return self.logical_bytes / seconds / 1e9 if seconds else None


def measure(
    role: str,
    element: ElementType,
    frames: Sequence[Frame],
    engine: Engine,
    runs: int,
    advance: Callable[[int], None] = lambda _: None,
    *,
    levels: Sequence[str] = LEVELS,
    peers: Collection[str] = PEERS,
    detailed: bool = False,
    limit_s: float = inf,
    block_bytes: int = BLOCK_BYTES,
) -> list[Result]:
    """Measure everyone on one component's frames. advance: told the bytes after every round.

    detailed: our engine by itself too. limit_s: who has taken that long is not in the later rounds. block_bytes: what peers get
    at once. Without runs only sizes are found, and all is decoded and compared.
    """
    blocks = join_blocks(frames, block_bytes)
    logical = sum(map(len, blocks))
    results: list[Result] = []
    with ExitStack() as stack:
        racing: list[tuple[Candidate, Result, _Times]] = []
        makers = chain(
            [("memcpy", lambda: Memcpy(blocks))],
            codec_candidates(frames, engine, levels, detailed=detailed),
            open_peers(element, blocks, peers),
        )
        for name, make in makers:
            candidate, result = _opened(make, Result(role, element.name, name, logical))
            results.append(result)
            if candidate is not None:
                stack.callback(candidate.close)
                racing.append((candidate, result, {step: [] for step in candidate.steps}))
        for number in range(runs):
            # Each round begins with another one: none has the same one before it every time.
            first = number % len(racing)
            for candidate, result, times in racing[first:] + racing[:first]:
                if _total(times) < limit_s:
                    _run_steps(candidate, result, times)
            advance(logical)
        for _, result, times in racing:
            if result.failure is None:
                result.seconds = {step: sum(map(median, zip(*units, strict=True))) for step, units in times.items()}
                result.least = {step: sum(map(min, zip(*units, strict=True))) for step, units in times.items()}
    return results


def sum_up(results: Sequence[Result]) -> list[Result]:
    """Over all components, those candidates that were measured on every one."""
    components = {(one.component, one.element) for one in results}
    sums: list[Result] = []
    for name in dict.fromkeys(one.candidate for one in results):
        mine = [one for one in results if one.candidate == name and one.failure is None]
        if len(mine) != len(components):
            continue
        total = Result(ALL, "", name, 0, identical=all(one.identical for one in mine))
        for one in mine:
            total.logical_bytes += one.logical_bytes
            total.stored_bytes += one.stored_bytes
            for step, seconds in one.seconds.items():
                total.seconds[step] = total.seconds.get(step, 0.0) + seconds
                total.least[step] = total.least.get(step, 0.0) + one.least[step]
        sums.append(total)
    return sums


def _opened(make: Maker, result: Result) -> tuple[Candidate | None, Result]:
    try:
        candidate = make()
        result.stored_bytes = candidate.stored_bytes()
        result.identical = candidate.is_identical()
    except Exception as error:  # a library may raise anything; the others are measured all the same
        result.failure = _short(error)
        return None, result
    if not result.identical:
        result.failure = "what it decodes is not what it was given"
    return candidate, result


def _total(times: _Times) -> float:
    return sum(sum(units) for rounds in times.values() for units in rounds)


def _run_steps(candidate: Candidate, result: Result, times: _Times) -> None:
    if result.failure is not None:
        return
    try:
        for step, work in candidate.steps.items():
            times[step].append(work())
    except Exception as error:
        result.failure = _short(error)


def _short(error: Exception) -> str:
    """What was raised, in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
