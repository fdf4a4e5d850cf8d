"""Frames that gain, their payloads from the kernels, and every instruction set that there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from s4weights.codec import _native
from s4weights.codec.types import NO_GRID, BaseKind, ElementType, Grid, Layout, Level, Predictor
from tests.codec.engines.bodies import moments, symbols, weights

LEVELS = [level.value for level in Level]
# Those that this machine has, the best one last, so that it is the one in use.
INSTRUCTION_SETS = list(dict.fromkeys(_native.set_simd(name) for name in ("scalar", "avx2", "avx512")))
FASTEST_SIMD = INSTRUCTION_SETS[-1]


@dataclass(frozen=True)
class Coded:
    """A frame that gains, what its header would say of its payload, and its base's elements."""

    element: ElementType
    frame: bytes
    predictor: int
    layout: int
    modes: list[int]
    payload: bytes
    base: bytes | None = None
    bases: tuple[tuple[BaseKind, bytes], ...] = ()

    @property
    def header(self) -> tuple[int, int, int, int]:
        return self.element.width, self.element.octave_bits, self.predictor, self.layout

    def decode(self, payload: object) -> bytes:
        return _native.decode_payload(payload, *self.header, len(self.frame), self.base)

    def is_verified(self, payload: object, frame: object) -> bool:
        base = self.base
        if base is not None:
            # As many elements as this frame has.
            base = (base * 2)[: len(base) * len(memoryview(frame)) // len(self.frame)]
        return _native.verify_payload(payload, *self.header, frame, base)


Encoded = tuple[int, int | None, int, list[int], bytes]
Bases = Sequence[tuple[BaseKind, object]]


def encode(
    frame: object,
    element: ElementType,
    level: str = "balanced",
    grid: Grid = NO_GRID,
    *,
    huffman: bool = True,
    bases: Bases = (),
) -> Encoded | None:
    return _native.encode_payload(
        frame, element.width, element.octave_bits, grid.columns, grid.column, level, huffman, list(bases)
    )


def coded(
    frame: bytes,
    element: ElementType,
    level: str = "balanced",
    grid: Grid = NO_GRID,
    bases: Sequence[tuple[BaseKind, bytes]] = (),
) -> Coded:
    found = encode(frame, element, level, grid, bases=bases)
    assert found is not None
    return as_coded(frame, element, found, bases)


def as_coded(frame: bytes, element: ElementType, found: Encoded, bases: Sequence[tuple[BaseKind, bytes]] = ()) -> Coded:
    predictor, number, layout, modes, payload = found
    base = None if number is None else bases[number][1]
    return Coded(element, frame, predictor, layout, modes, payload, base, tuple(bases))


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
    "xor": lambda: from_base(ElementType.I32, Predictor.XOR),
    "difference": lambda: from_base(ElementType.BF16, Predictor.DIFFERENCE),
    "narrowed": lambda: from_base(ElementType.BF16, Predictor.NARROWED),
    "widened": lambda: from_base(ElementType.F32, Predictor.WIDENED),
    "copy": lambda: from_base(ElementType.F32, Predictor.XOR, changed=0),
    "rounded copy": lambda: from_base(ElementType.BF16, Predictor.NARROWED, changed=0),
}


def from_base(element: ElementType, predictor: Predictor, level: str = "balanced", changed: float = 0.3) -> Coded:
    """Two blocks that are predicted just so. changed: share of the elements that are not what the base has."""
    frame, base = pair(70_001, element, predictor.base_kind, changed, bits=predictor is Predictor.XOR)
    one = coded(frame, element, level, bases=[(predictor.base_kind, base)])
    assert one.predictor == predictor
    assert (one.layout == Layout.RAW) == (changed == 0 and predictor is not Predictor.WIDENED)
    return one


def pair(
    count: int, element: ElementType, kind: BaseKind, changed: float, *, bits: bool = False
) -> tuple[bytes, bytes]:
    """A frame, and its base. bits: changed in a bit of the upper half, not by some units of the last place."""
    rng = np.random.default_rng(count)
    dtype = f"<u{element.width}"
    source = weights(count, element) if element.is_float else rng.bytes(count * element.width)
    wide = np.frombuffer(weights(count, ElementType.F32), "<u4")
    rounded = ((wide + (wide >> 16 & 1) + np.uint32(32_767)) >> 16).astype("<u2").tobytes()
    original = {BaseKind.SAME: source, BaseKind.WIDER: rounded, BaseKind.NARROWER: wide.tobytes()}[kind]
    base = {BaseKind.SAME: source, BaseKind.WIDER: wide.tobytes(), BaseKind.NARROWER: rounded}[kind]
    steps = rng.integers(1, 6, count) * rng.choice([-1, 1], count) * (rng.random(count) < changed)
    words = np.frombuffer(original, dtype)
    if bits:
        words = words ^ (np.abs(steps) > 2).astype(dtype) << np.dtype(dtype).type(8 * element.width - 3)
    else:
        words = words + steps.astype(f"<i{element.width}").view(dtype)
    return words.tobytes(), base


def two_blocks_of_bells() -> bytes:
    values = np.random.default_rng(5).normal(128, 2, 66_000).astype(np.uint8)
    values[::700] = 3
    return values.tobytes()


def exact_moments() -> bytes:
    rng = np.random.default_rng(6)
    levels = 5 * rng.binomial(4, 0.5, (1_100, 1)) + 7 * rng.binomial(4, 0.5, 1_100)
    return (0x3800 + 16 * levels).astype("<u2").tobytes()
