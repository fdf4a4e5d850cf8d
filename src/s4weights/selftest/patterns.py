"""Frames that a coder of numbers gets wrong first: patterns of every type, at sizes around every border of the format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from s4weights.codec.limits import FRAME_BYTES, MIN_TYPED_BYTES
from s4weights.codec.types import NO_GRID, ElementType, Frame, Grid, Level

# Source: docs/format.md: elements in a block, in a sample taken whole; lanes of an entropy coder.
BLOCK: Final = 65_536
SAMPLE: Final = 16_384
LANES: Final = 32
_COLUMNS: Final = 48

_Words: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One frame, and how hard to try."""

    pattern: str
    level: Level
    frame: Frame

    @property
    def name(self) -> str:
        """For reports."""
        elements = len(self.frame.data) // self.frame.element.width
        return f"{self.pattern}, {elements} x {self.frame.element.name}, {self.level.value}"


def zeros(count: int, element: ElementType) -> bytes:
    """Every plane constant."""
    return bytes(count * element.width)


def ones(count: int, element: ElementType) -> bytes:
    """All bits set: NaNs, -1, the largest."""
    return b"\xff" * (count * element.width)


def ramp(count: int, element: ElementType) -> bytes:
    """Every bit pattern in turn, as far as count goes."""
    return np.arange(count, dtype=np.uint64).astype(f"<u{element.width}").tobytes()


def noise(count: int, element: ElementType) -> bytes:
    """Nothing gains."""
    return np.random.default_rng(count).bytes(count * element.width)


def trained(count: int, element: ElementType) -> bytes:
    """A bell of small values: weights; for whole numbers, small ones often."""
    values = np.random.default_rng(count).normal(0, 0.02, count)
    if not element.is_float:
        return (values * 200).astype(np.int64).astype(f"<u{element.width}").tobytes()
    return _as_float(values, element)


def edges(count: int, element: ElementType) -> bytes:
    """Where numbers end: both zeros, denormals, infinities, NaNs that signal and that carry a payload, highest, lowest."""
    bits = 8 * element.width
    mantissa = {1: 3, 2: 7, 4: 23, 8: 52}[element.width] if element is not ElementType.F16 else 10
    top, infinity = 1 << bits - 1, (1 << bits - 1) - (1 << mantissa)
    special = [0, top, 1, top | 1, infinity, infinity | top, infinity | 1, infinity | 1 << mantissa - 1, top - 1]
    special += [(1 << bits) - 1, 1 << mantissa, infinity - 1, infinity | (1 << mantissa - 1) - 1]
    return np.resize(np.array(special, dtype=f"<u{element.width}"), count).tobytes()


def two_symbols(count: int, element: ElementType) -> bytes:
    """Lowest and highest byte in turn."""
    return np.resize(np.frombuffer(b"\0" * element.width + b"\xff" * element.width, np.uint8), count * element.width)[
        : count * element.width
    ].tobytes()


def rare(count: int, element: ElementType) -> bytes:
    """One value, and now and then another that no table expects."""
    words = np.full(count, 3, dtype=f"<u{element.width}")
    words[::601] = (1 << 8 * element.width - 1) - 1
    return words.tobytes()


def surprise(count: int, element: ElementType) -> bytes:
    """Calm where samples are taken first, noise at the end."""
    calm = count // 2
    return zeros(calm, element) + noise(count - calm, element)


def geometric(count: int, element: ElementType) -> bytes:
    """Symbols whose code lengths differ as far as they can."""
    return np.random.default_rng(count).geometric(0.5, count * element.width).clip(0, 255).astype(np.uint8).tobytes()


def repeats(count: int, element: ElementType) -> bytes:
    """The same few hundred bytes again and again."""
    piece = np.random.default_rng(7).bytes(312)
    return (piece * (count * element.width // len(piece) + 1))[: count * element.width]


def moments(count: int, element: ElementType) -> bytes:
    """Rows times columns, some rows never used: what the levels predict."""
    rng = np.random.default_rng(count)
    rows = -(-count // _COLUMNS)
    spread = 0.5 if element is ElementType.F16 else 2.0
    scales = np.exp(rng.normal(0, spread, (rows, 1))) * np.exp(rng.normal(0, spread, (1, _COLUMNS)))
    values = scales * rng.gamma(4, 0.25, (rows, _COLUMNS)) * 1e-2
    values[4::9] = 0
    if not element.is_float:
        return (values * 1e4).clip(0, 200).astype(f"<u{element.width}").reshape(-1)[:count].tobytes()
    return _as_float(values.reshape(-1)[:count], element)


PATTERNS: Final[tuple[Callable[[int, ElementType], bytes], ...]] = (
    *(zeros, ones, ramp, noise, trained, edges),
    *(two_symbols, rare, surprise, geometric, repeats, moments),
)


def small_counts(element: ElementType) -> list[int]:
    """Element counts that every engine can be held to, the slow one too."""
    typed = MIN_TYPED_BYTES // element.width
    return sorted({1, 2, LANES - 1, LANES, LANES + 1, 255, 257, typed - 1, typed, typed + 1})


def block_counts(element: ElementType, *, thorough: bool, turn: int = 0) -> list[int]:
    """Around blocks, samples and the frame's end: one of each border's three, by turn, or, thorough, all."""
    frame = FRAME_BYTES // element.width
    borders = (SAMPLE, BLOCK, 2 * BLOCK, frame - 1)
    counts = {count + step for count in borders for step in (-1, 0, 1) if thorough or step == (turn + count) % 3 - 1}
    return sorted(count for count in counts if count <= frame)


def small_cases(*, thorough: bool) -> Iterator[Case]:
    """Every pattern of every type at every size; at levels in turn, or, thorough, at all."""
    for element in ElementType:
        for number, pattern in enumerate(PATTERNS):
            yield from _at_levels(pattern, small_counts(element), element, number, thorough=thorough)


def block_cases(*, thorough: bool) -> Iterator[Case]:
    """The same at larger sizes, and all numbers of 16 bits."""
    for element in ElementType:
        for number, pattern in enumerate(PATTERNS):
            counts = block_counts(element, thorough=thorough, turn=number + element)
            yield from _at_levels(pattern, counts, element, number, thorough=thorough)
        if element.width == 2:
            for level in Level:
                yield _case(ramp, BLOCK, element, level, "all 65,536 numbers")


def _at_levels(
    pattern: Callable[[int, ElementType], bytes],
    counts: list[int],
    element: ElementType,
    number: int,
    *,
    thorough: bool,
) -> Iterator[Case]:
    levels = list(Level)
    for place, count in enumerate(counts):
        chosen = levels if thorough else [levels[(number + place + element) % len(levels)]]
        for level in chosen:
            yield _case(pattern, count, element, level)


def _case(
    pattern: Callable[[int, ElementType], bytes], count: int, element: ElementType, level: Level, name: str = ""
) -> Case:
    has_rows = pattern is moments and element.is_float and count > _COLUMNS
    grid = Grid(_COLUMNS, 0) if has_rows else NO_GRID
    return Case(name or pattern.__name__, level, Frame(0, element, pattern(count, element), grid))


def _as_float(values: _Words, element: ElementType) -> bytes:
    if element is ElementType.BF16:
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return values.astype(f"<f{element.width}").tobytes()
