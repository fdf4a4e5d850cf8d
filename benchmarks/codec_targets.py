"""What the codec is held to, a line each: required, found, met or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codec_rows import ADAM_M, ADAM_V, BF16_MODEL, BF16_V, MASTER

from s4weights.measure.candidate import COPY, DECODE, ENCODE, ENGINE_DECODE, ENGINE_VERIFIED, VERIFIED
from s4weights.measure.rounds import Result

FAST, BALANCED, SMALL = "s4weights fast", "s4weights balanced", "s4weights small"
OURS = (FAST, BALANCED, SMALL)
RANS, MEMCPY, ZIPNN = "s4weights rANS", "memcpy", "zipnn"

Table = Mapping[str, Mapping[str, Result]]
"""Row -> candidate -> result."""


@dataclass(frozen=True)
class Target:
    """found: by medians; least: by each unit's fastest round, None where no time is involved. Both must hold: on a machine
    with other work either may flatter, but hardly both.

    is_most: required is the most that is allowed, else the least. found None: could not be measured here.
    """

    name: str
    required: float
    found: float | None
    least: float | None = None
    is_most: bool = False
    is_stretch: bool = False

    @property
    def is_met(self) -> bool:
        return self._holds(self.found) and (self.least is None or self._holds(self.least))

    def _holds(self, value: float | None) -> bool:
        return value is not None and (value <= self.required if self.is_most else value >= self.required)

    def cells(self) -> list[str]:
        sign = "≤" if self.is_most else "≥"
        name = f"{self.name} (stretch)" if self.is_stretch else self.name
        return [name, f"{sign} {self.required:g}", _shown(self.found), _shown(self.least), self._verdict()]

    def _verdict(self) -> str:
        if self.found is None:
            return "not measured"
        if self.is_met:
            return "yes"
        if self._holds(self.found):
            return "by medians only"
        return "by fastest rounds only" if self._holds(self.least) else "**no**"

    def record(self) -> dict[str, Any]:
        return {
            "target": self.name,
            "required": self.required,
            "at_most": self.is_most,
            "stretch": self.is_stretch,
            "found": self.found,
            "found_fastest_rounds": self.least,
            "met": self.is_met,
        }


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if value < 2 else f"{value:.2f}"


def best_peer(results: Iterable[Result]) -> Result | None:
    """The peer whose output is smallest."""
    peers = [one for one in results if one.candidate not in (*OURS, RANS, MEMCPY) and one.failure is None]
    return min(peers, key=lambda one: one.stored_bytes, default=None)


def size_targets(sizes: Table, whole: Mapping[str, int]) -> Iterator[Target]:
    """whole: stored bytes of the mixed checkpoint file by candidate."""
    for row, results in sizes.items():
        best = best_peer(results.values())
        for level, required in ((SMALL, 1.0), (BALANCED, 1.01)):
            found = results[level].stored_bytes / best.stored_bytes if best else None
            name = best.candidate if best else "a peer"
            yield Target(f"{row}: `{_level(level)}` by the smallest peer ({name})", required, found, is_most=True)
    for row, share in ((ADAM_V, 0.775), (ADAM_M, 0.828), (BF16_V, 0.56)):
        if row in sizes:
            yield Target(f"{row}: `small` by raw", share, 1 / sizes[row][SMALL].ratio, is_most=True)
    zipnn = min((size for name, size in whole.items() if name.startswith(ZIPNN)), default=None)
    found = whole[BALANCED] / zipnn if zipnn else None
    yield Target("whole mixed checkpoint: `balanced` by zipnn", 0.975, found, is_most=True)


def speed_targets(speeds: Table) -> Iterator[Target]:
    for row, plain, verified, of_memcpy, stretch in (
        (BF16_MODEL, 3.5, 1.8, 0.42, 0.55),
        (MASTER, 6.0, 3.0, 0.55, 0.9),
    ):
        if row not in speeds:
            continue
        pair = Pair(row, speeds[row])
        yield pair.target("`balanced` encode, engine, by zipnn's", plain, (BALANCED, ENCODE), (ZIPNN, ENCODE))
        yield pair.target("`balanced` decode, engine, by zipnn's", 1.6, (BALANCED, ENGINE_DECODE), (ZIPNN, DECODE))
        yield pair.target("`balanced` decode, engine, by memcpy", of_memcpy, (BALANCED, ENGINE_DECODE), (MEMCPY, COPY))
        yield pair.target(
            "`balanced` encode and compare, engine, by zipnn's", verified, (BALANCED, ENGINE_VERIFIED), (ZIPNN, ENCODE)
        )
        yield pair.target(
            "`balanced` encode, compare and hashes, by zipnn's", verified, (BALANCED, VERIFIED), (ZIPNN, ENCODE)
        )
        yield pair.target("`fast` decode, engine, by memcpy", 1.0, (FAST, ENGINE_DECODE), (MEMCPY, COPY))
        yield pair.target(
            "`balanced` decode, engine, by memcpy", stretch, (BALANCED, ENGINE_DECODE), (MEMCPY, COPY), is_stretch=True
        )
        if row == BF16_MODEL:
            yield pair.target("rANS frames, encode, engine, by zipnn's", 1.6, (RANS, ENCODE), (ZIPNN, ENCODE))
            yield pair.target("rANS frames, decode, engine, by zipnn's", 1.05, (RANS, ENGINE_DECODE), (ZIPNN, DECODE))


class Pair:
    """Two candidates' speeds on one row, one divided by the other."""

    def __init__(self, row: str, results: Mapping[str, Result]) -> None:
        self._row = row
        self._results = results

    def target(
        self, name: str, required: float, ours: tuple[str, str], other: tuple[str, str], *, is_stretch: bool = False
    ) -> Target:
        return Target(
            f"{self._row}: {name}",
            required,
            divide(self._speed(ours), self._speed(other)),
            divide(self._speed(ours, best=True), self._speed(other, best=True)),
            is_stretch=is_stretch,
        )

    def _speed(self, which: tuple[str, str], *, best: bool = False) -> float | None:
        candidate, step = which
        result = self._results.get(candidate)
        return None if result is None or result.failure is not None else result.speed(step, best=best)


def divide(ours: float | None, other: float | None) -> float | None:
    """None where one is missing."""
    return None if ours is None or not other else ours / other


def _level(candidate: str) -> str:
    return candidate.rpartition(" ")[2]
