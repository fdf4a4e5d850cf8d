"""Frames that gain, their payloads from the kernels, and both instruction sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from s4weights.codec import _native
from s4weights.codec.types import NO_GRID, ElementType, Grid, Level
from tests.codec.engines.bodies import moments, symbols, weights

LEVELS = [level.value for level in Level]
FASTEST_SIMD = _native.set_simd("avx2")


@dataclass(frozen=True)
class Coded:
    """A frame that gains, and what its header would say of its payload."""

    element: ElementType
    frame: bytes
    predicted: bool
    rotation: int
    modes: list[int]
    payload: bytes

    @property
    def layout(self) -> tuple[int, int, int, bool]:
        return self.element.width, self.element.octave_bits, self.rotation, self.predicted

    def decode(self, payload: object) -> bytes:
        return _native.decode_payload(payload, *self.layout, len(self.frame))

    def is_verified(self, payload: object, frame: object) -> bool:
        return _native.verify_payload(payload, *self.layout, frame)


def encode(
    frame: object, element: ElementType, level: str = "balanced", grid: Grid = NO_GRID, *, huffman: bool = True
) -> tuple[bool, int, list[int], bytes] | None:
    return _native.encode_payload(frame, element.width, element.octave_bits, grid.columns, grid.column, level, huffman)


def coded(frame: bytes, element: ElementType, level: str = "balanced", grid: Grid = NO_GRID) -> Coded:
    found = encode(frame, element, level, grid)
    assert found is not None
    return Coded(element, frame, *found)


@contextmanager
def using(name: str) -> Iterator[str]:
    """An instruction set, as far as the machine has it."""
    try:
        yield _native.set_simd(name)
    finally:
        _native.set_simd(FASTEST_SIMD)


# Every mode, with levels and without, with exceptions, in one block and in several.
EXAMPLES = {
    "nibbles": lambda: coded(two_blocks_of_bells(), ElementType.U8, "fast"),
    "Huffman": lambda: coded(two_blocks_of_bells(), ElementType.U8),
    "rANS": lambda: coded(two_blocks_of_bells(), ElementType.U8, "small"),
    "bits": lambda: coded(symbols(9_000, 0.97), ElementType.U8, "fast"),
    "levels": lambda: coded(moments(100, 64, ElementType.BF16), ElementType.BF16, "balanced", Grid(64, 0)),
    "products": lambda: coded(moments(100, 64, ElementType.F32, 0, 2), ElementType.F32, "small", Grid(64, 7)),
    "coded levels": lambda: coded(exact_moments(), ElementType.BF16, "balanced", Grid(1_100, 0)),
    "base only": lambda: coded(weights(5_000, ElementType.F64), ElementType.F64),
}


def two_blocks_of_bells() -> bytes:
    values = np.random.default_rng(5).normal(128, 2, 66_000).astype(np.uint8)
    values[::700] = 3
    return values.tobytes()


def exact_moments() -> bytes:
    rng = np.random.default_rng(6)
    levels = 5 * rng.binomial(4, 0.5, (1_100, 1)) + 7 * rng.binomial(4, 0.5, 1_100)
    return (0x3800 + 16 * levels).astype("<u2").tobytes()
