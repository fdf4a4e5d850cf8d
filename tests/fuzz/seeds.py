"""Write the inputs that the fuzzers of the kernels begin with: payloads of every mode, and frames to encode.

Usage: python -m tests.fuzz.seeds FOLDER. The layout of an input is told in the fuzzers.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from s4weights.codec.engines import NativeEngine
from s4weights.codec.engines.interface import EncodedPayload
from s4weights.codec.types import Base, BaseKind, ElementType, Grid, Layout, Level, Mode, Predictor, Reference
from tests.codec.engines.bodies import moments
from tests.codec.entropy import gdeflate_encoder

# In the order of kElements in input.hpp.
ELEMENTS = (
    ElementType.U8,
    ElementType.U16,
    ElementType.U32,
    ElementType.U64,
    ElementType.BF16,
    ElementType.F16,
    ElementType.F32,
    ElementType.F64,
)
FLOATS = ELEMENTS[4:]
BLOCK = 65_536
# By the upper three bits of an input's second byte.
PREDICTORS = {
    1: Predictor.XOR,
    2: Predictor.DIFFERENCE,
    3: Predictor.NARROWED,
    4: Predictor.LEVELS,
    5: Predictor.WIDENED,
}
_CHOSEN = {predictor: number << 5 for number, predictor in PREDICTORS.items()}
_OFFERED_BASES = 0x40
_SMALL_GRID = 0x80
_NO_HUFFMAN = 0x08
_MADE = (0, 0x10, 0x20, 0x30)  # repeated; with changed bytes; by rows and columns; both


def payload_seeds() -> Iterator[tuple[str, bytes]]:
    """Payloads as the encoder makes them, small ones and ones of two blocks."""
    for code, element in enumerate(ELEMENTS):
        for name, frame, columns in _frames(element):
            for level in Level:
                coded = NativeEngine().encode(frame, element, grid=Grid(columns, 0), level=level)
                if coded.layout is Layout.RAW or coded.element is not element:
                    continue
                yield f"{element.name}-{name}-{level.value}", _head(code, element, frame, coded) + bytes(coded.payload)
    for code, element in enumerate(ELEMENTS):
        for predictor in PREDICTORS.values():
            if predictor.needs_base and predictor.fits(element):
                yield f"{element.name}-{predictor.name}", _from_base(code, element, predictor)
    for name, plane in _pages():
        stored = gdeflate_encoder.encode_plane(plane)
        head = struct.pack("<BB", 0, 0) + (len(plane) - 1).to_bytes(3, "little")
        yield f"gdeflate-{name}", head + struct.pack("<B3xI", Mode.GDEFLATE, len(stored)) + stored


def made_base(size: int, source: bytes) -> bytes:
    """As input.hpp makes it: the bytes over and over, with every sign."""
    tiled = np.resize(np.frombuffer(source or b"\0", np.uint8), size)
    return (tiled + (37 * (np.arange(size) // 64)).astype(np.uint8)).tobytes()


def _head(code: int, element: ElementType, frame: bytes, coded: EncodedPayload) -> bytes:
    choices = max(coded.layout.rotation - 1, 0) | _CHOSEN.get(coded.predictor, 0)
    # input.hpp takes elements less one.
    return struct.pack("<BB", code, choices) + (len(frame) // element.width - 1).to_bytes(3, "little")


def _from_base(code: int, element: ElementType, predictor: Predictor) -> bytes:
    """A payload that needs a base: its planes, since a fuzzer makes the base from the payload."""
    n = 700
    random = np.random.default_rng(code)
    kind = predictor.base_kind
    words = random.integers(0, 1 << 8 * min(element.width, 4), n).astype(f"<u{element.width}")
    changed = random.geometric(0.5, n).astype(words.dtype)
    frame, base = words.tobytes(), (words ^ changed if predictor is Predictor.XOR else words + changed).tobytes()
    if kind is BaseKind.NARROWER:
        base = (words >> 16).astype("<u2").tobytes()
    elif kind is BaseKind.WIDER:
        base = (words.astype("<u4") << 16 | random.integers(0, 1 << 15, n).astype("<u4")).tobytes()
        frame = (words ^ (changed > 4)).astype("<u2").tobytes()
    coded = NativeEngine().encode(frame, element, bases=[Base(Reference(1, 0), kind, base)])
    assert coded.predictor is predictor, (element, coded.predictor)
    return _head(code, element, frame, coded) + bytes(coded.payload)


def gdeflate_seeds() -> Iterator[tuple[str, bytes]]:
    """Pages of every kind of block."""
    for name, plane in _pages():
        for kinds in ((0,), (1,), (2,), (2, 0, 1, 2)):
            for longest in (0, 300, 70_000):
                page = gdeflate_encoder.encode_page(plane, kinds=kinds, longest=longest)
                yield f"{name}-{''.join(map(str, kinds))}-{longest}", struct.pack("<H", len(plane) - 1) + page


def round_trip_seeds() -> Iterator[tuple[str, bytes]]:
    """Frames of a few bytes, made longer by the fuzzer."""
    random = np.random.default_rng(0)
    for code, element in enumerate(ELEMENTS):
        for number, made in enumerate(_MADE):
            for level in range(3):
                for n in (33, 3_000, BLOCK + 1) if level == 1 else (1, 20_000):
                    grid = struct.pack("<II", 16 + n % 64, n % 16)
                    effort = level | made | _SMALL_GRID | (_NO_HUFFMAN if n % 2 == 0 else 0)
                    seed = struct.pack("<I", n + number)
                    bytes_of_frame = random.geometric(0.1, 40).clip(0, 255).astype(np.uint8).tobytes()
                    for bases in (0, _OFFERED_BASES):
                        head = struct.pack("<BB", code, effort | bases) + (n - 1).to_bytes(3, "little")
                        yield f"{element.name}-{made}-{level}-{n}-{bases}", head + grid + seed + bytes_of_frame


def _pages() -> Iterator[tuple[str, bytes]]:
    random = np.random.default_rng(0)
    yield "skewed", random.geometric(0.3, 3_000).clip(0, 255).astype(np.uint8).tobytes()
    yield "repeated", random.choice(np.array([3, 5, 6], np.uint8), 90).tobytes() * 30
    yield "zeros", bytes(9_000)
    yield "byte", b"x"


def _frames(element: ElementType) -> Iterator[tuple[str, bytes, int]]:
    """Name, bytes, columns."""
    random = np.random.default_rng(0)
    width = element.width
    for n in (40, 700):
        yield f"skewed{n}", random.geometric(0.3, n * width).clip(0, 255).astype(np.uint8).tobytes(), 0
        yield f"few{n}", random.choice(np.array([3, 5, 6], np.uint8), n * width).tobytes(), 0
    yield "zeros", bytes(64 * width), 0
    if width == 1:
        yield "blocks", random.geometric(0.3, BLOCK + 200).clip(0, 255).astype(np.uint8).tobytes(), 0
    if element in FLOATS:
        yield "moments", moments(40, 48, element, 0), 48


def write(folder: Path) -> None:
    """One folder a fuzzer."""
    found = {"gdeflate": gdeflate_seeds(), "payload": payload_seeds(), "round_trip": round_trip_seeds()}
    for fuzzer, seeds in found.items():
        (folder / fuzzer).mkdir(parents=True, exist_ok=True)
        for name, seed in seeds:
            (folder / fuzzer / name).write_bytes(seed)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
