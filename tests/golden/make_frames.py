"""Make the golden frames, by the reference: every type at every level, and what only longer ones have.

Files that exist are never written again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import Engine, ReferenceEngine
from s4weights.codec.types import NO_GRID, Base, BaseKind, ElementType, Frame, Grid, Level, Reference

FOLDER = Path(__file__).parent / "v1" / "frames"
ELEMENTS = 1_000
# One more block than a plane of one block has.
TWO_BLOCKS = 66_000
FLOATS = [element for element in ElementType if element.is_float]

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One golden frame. Its bytes come from integers only, so that no library's version can change them."""

    element: ElementType
    level: Level
    data: bytes
    grid: Grid = NO_GRID
    bases: tuple[Base, ...] = ()

    def stored(self, engine: Engine) -> bytes:
        """What a writer of version 1 stores."""
        frame = encode_frame(Frame(0, self.element, self.data, self.grid, self.bases), engine, self.level)
        return frame.header + bytes(frame.payload)


def noise(count: int, seed: int, below: int) -> Numbers:
    """SplitMix64 of count numbers. Source: Steele, Lea and Flood, OOPSLA 2014."""
    x = (np.arange(count, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ x >> np.uint64(shift)) * np.uint64(factor)
    return ((x ^ x >> np.uint64(31)) % np.uint64(below)).astype(np.int64)


def bell(count: int, seed: int) -> Numbers:
    """0 to 4, as four coins fall."""
    return sum((noise(count, seed + k, 2) for k in range(4)), start=np.zeros(count, dtype=np.int64))


def plain(element: ElementType) -> bytes:
    """Noise below, few values on top, zeros between; of one byte, three bits."""
    if element is ElementType.BYTES:
        return b"never show a wrong byte; " * 16
    octets = np.zeros((ELEMENTS, element.width), dtype=np.uint8)
    octets[:, 0] = noise(ELEMENTS, 0, 256)
    octets[:, -1] = 60 + (noise(ELEMENTS, 0, 8) if element.width == 1 else bell(ELEMENTS, 1))
    return octets.tobytes()


def from_rotated(top: Numbers, rest: Numbers, element: ElementType) -> bytes:
    """Elements of which, after a rotation by one, the top 16 bits and those below are these."""
    bits = 8 * element.width
    turned = top.astype(np.uint64) << np.uint64(bits - 16) | rest.astype(np.uint64)
    words = turned >> np.uint64(1) | turned << np.uint64(bits - 1)
    return words.astype(f"<u{element.width}").tobytes()


def moments(rows: int, columns: int, element: ElementType) -> bytes:
    """A row's level and a column's, a product of factors, some noise; every ninth row is zero."""
    octave = 1 << element.octave_bits
    levels = (noise(rows, 1, 33) - 16)[:, np.newaxis] + noise(columns, 2, 33) - 16
    products = (noise(rows, 3, 201) - 100)[:, np.newaxis] * (noise(columns, 4, 201) - 100)
    top = 0x7800 + octave // 8 * levels + (products >> 12 - element.octave_bits)
    top = top + noise(rows * columns, 5, octave // 4).reshape(rows, columns) & 0xFFFE
    rest = noise(rows * columns, 6, 1 << min(8 * element.width - 16, 16)).reshape(rows, columns) & ~1
    top[4::9] = rest[4::9] = 0
    return from_rotated(top.reshape(-1), rest.reshape(-1), element)


def exact_levels(size: int) -> bytes:
    """Nothing but levels, so many that they are coded too, and a sign here and there."""
    levels = (bell(size, 11) * 5)[:, np.newaxis] + bell(size, 21) * 7
    top = (0x7000 + 32 * levels).reshape(-1)
    top[::997] |= 1
    return from_rotated(top, np.zeros_like(top), ElementType.BF16)


def two_blocks(values: Numbers) -> bytes:
    """bf16 with these values from 126 on for exponents, and now and then one that has no place among them."""
    exponents = values + 126
    exponents[::601] = 7
    return from_rotated(exponents << 8, np.zeros_like(exponents), ElementType.BF16)


def words(numbers: Numbers, width: int) -> bytes:
    """The low bytes of each."""
    return numbers.astype(np.uint64).astype(f"<u{width}").tobytes()


def near_bases() -> dict[str, Case]:
    """What each predictor that needs a base is made for, some places besides the first; copies."""
    found = {}
    for element in ElementType:
        if element is ElementType.BYTES:
            continue
        width = element.width
        before = noise(ELEMENTS, 61, 1 << 8 * min(width, 4))
        if width == 8:
            before = before << 32 | noise(ELEMENTS, 64, 1 << 32)
        flipped = before ^ (bell(ELEMENTS, 62) == 0) * (1 << noise(ELEMENTS, 66, 8 * width))
        stepped = before + bell(ELEMENTS, 71)
        # Elements that are wrong in every place first: a writer must not take it.
        bases = tuple(
            Base(Reference(number, 4_096 * number), BaseKind.SAME, words(numbers, width))
            for number, numbers in enumerate((noise(ELEMENTS, 63, 256), before))
        )
        name = element.name.lower()
        for level in Level if element in (ElementType.BF16, ElementType.F32, ElementType.U8) else (Level.BALANCED,):
            found[f"xor-{name}-{level.value}"] = Case(element, level, words(flipped, width), bases=bases)
            found[f"difference-{name}-{level.value}"] = Case(element, level, words(stepped, width), bases=bases)
        found[f"copy-{name}"] = Case(element, Level.BALANCED, words(before, width), bases=bases)
    text = b"never show a wrong byte; " * 16
    same = Base(Reference(3, 0), BaseKind.SAME, noise(len(text), 81, 256).astype(np.uint8).tobytes())
    xored = bytes(a ^ b for a, b in zip(text, same.data, strict=True))
    found["xor-bytes-balanced"] = Case(ElementType.BYTES, Level.BALANCED, xored, bases=(same,))
    found["copy-bytes"] = Case(ElementType.BYTES, Level.BALANCED, bytes(same.data), bases=(same,))
    wide = noise(ELEMENTS, 91, 1 << 32)
    # Ties and infinities besides.
    wide[::50], wide[1::50] = wide[::50] & ~0xFFFF | 0x8000, 0x7F80_0000
    narrow = wide + 0x7FFF + (wide >> 16 & 1) >> 16
    exact = Base(Reference(0, 8), BaseKind.WIDER, words(wide, 4))
    rounded = Base(Reference(0, 8), BaseKind.NARROWER, words(narrow, 2))
    off_by_some = narrow ^ (bell(ELEMENTS, 92) == 0)
    for level in Level:
        found[f"narrowed-{level.value}"] = Case(ElementType.BF16, level, words(off_by_some, 2), bases=(exact,))
        found[f"widened-{level.value}"] = Case(ElementType.F32, level, words(wide, 4), bases=(rounded,))
    found["copy-narrowed"] = Case(ElementType.BF16, Level.BALANCED, words(narrow, 2), bases=(exact,))
    return found


def cases() -> dict[str, Case]:
    """By name."""
    rare = (noise(TWO_BLOCKS, 31, 64) == 0).astype(np.int64)
    found = {
        f"{element.name.lower()}-{level.value}": Case(element, level, plain(element))
        for element in ElementType
        for level in Level
    }
    for level in Level:
        found[f"blocks-{level.value}"] = Case(ElementType.BF16, level, two_blocks(bell(TWO_BLOCKS, 41)))
        found[f"rare-{level.value}"] = Case(ElementType.BF16, level, two_blocks(rare))
        found[f"noise-{level.value}"] = Case(ElementType.F16, level, noise(500, 51, 1 << 16).astype("<u2").tobytes())
    for level in (Level.BALANCED, Level.SMALL):
        for element in FLOATS:
            data = moments(65, 48, element)[13 * element.width :]
            found[f"moments-{element.name.lower()}-{level.value}"] = Case(element, level, data, Grid(48, 13))
    found["exact-levels-balanced"] = Case(ElementType.BF16, Level.BALANCED, exact_levels(1_100), Grid(1_100, 0))
    return found | near_bases()


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, case in cases().items():
        path = FOLDER / f"{name}.frame"
        if path.exists():
            sys.stderr.write(f"{path.name}: exists\n")
        else:
            path.write_bytes(case.stored(ReferenceEngine()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
