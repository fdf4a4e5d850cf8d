"""The plain types that the codec's stages pass to one another."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


# As PNG's: a byte over 127 and both line ends, so that a transfer in text mode is seen at once.
CONTAINER_MAGIC: Final = b"\x89S4W\r\n\x1a\n"


class ElementType(enum.IntEnum):
    """Type of one element, as stored in a frame header; names are those of safetensors."""

    BYTES = 0
    BF16 = 1
    F16 = 2
    F32 = 3
    F64 = 4
    I8 = 5
    U8 = 6
    I16 = 7
    U16 = 8
    I32 = 9
    U32 = 10
    I64 = 11
    U64 = 12
    BOOL = 13
    F8_E4M3 = 14
    F8_E5M2 = 15
    F8_E8M0 = 16

    @property
    def width(self) -> int:
        """Bytes of one element."""
        return _WIDTHS[self]

    @property
    def octave_bits(self) -> int:
        """Of a float: how far up in its top 16 bits without the sign one octave lies; 0 for all else."""
        return _OCTAVES.get(self, 0)

    @property
    def is_float(self) -> bool:
        """Whether elements have a sign, an exponent and a mantissa, and more than one byte."""
        return self in _OCTAVES


_WIDTHS: Final = {
    ElementType.BYTES: 1,
    ElementType.BF16: 2,
    ElementType.F16: 2,
    ElementType.F32: 4,
    ElementType.F64: 8,
    ElementType.I8: 1,
    ElementType.U8: 1,
    ElementType.I16: 2,
    ElementType.U16: 2,
    ElementType.I32: 4,
    ElementType.U32: 4,
    ElementType.I64: 8,
    ElementType.U64: 8,
    ElementType.BOOL: 1,
    ElementType.F8_E4M3: 1,
    ElementType.F8_E5M2: 1,
    ElementType.F8_E8M0: 1,
}
# 15 less the bits of the exponent, plus the one in which a carry goes: docs/format.md, section 2.1.
_OCTAVES: Final = {ElementType.BF16: 8, ElementType.F16: 11, ElementType.F32: 8, ElementType.F64: 5}


class Predictor(enum.IntEnum):
    """What is taken from a frame before its planes are made."""

    NONE = 0
    LEVELS = 1  # a level for each row and each column, in the logarithm


class Layout(enum.IntEnum):
    """How a frame's payload is made from its elements."""

    RAW = 0  # the logical bytes themselves, no plane descriptors
    PLANES = 1  # plane k holds byte k of every element
    ROTATED_1 = 2  # the same after each element was rotated left, by one bit ...
    ROTATED_2 = 3
    ROTATED_3 = 4
    ROTATED_4 = 5  # ... to four

    @property
    def rotation(self) -> int:
        """Bits by which elements are rotated left before their planes are taken."""
        return max(self.value - 1, 0)


class Mode(enum.IntEnum):
    """The entropy stage of one plane."""

    RAW = 0
    CONSTANT = 1
    RANS = 2
    ZSTD = 3
    HUFFMAN = 4
    NIBBLES = 5
    BITS = 6
    GDEFLATE = 7


class Level(enum.Enum):
    """What the writer of a container wants most."""

    FAST = "fast"  # never the bottleneck
    BALANCED = "balanced"
    SMALL = "small"  # everything that gains


class Kind(enum.Enum):
    """What `sniff` takes a body for."""

    UNKNOWN = "unknown"
    ELEMENTS = "elements"  # numbers, in no format that we know
    SAFETENSORS = "safetensors"
    TORCH_ZIP = "torch-zip"
    TORCH_LEGACY = "torch-legacy"
    NPY = "npy"
    NPZ = "npz"
    GGUF = "gguf"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of the body with one element type (BYTES: none). start, length: logical bytes."""

    start: int
    length: int
    element: ElementType = ElementType.BYTES
    name: str | None = None
    shape: tuple[int, ...] | None = None

    @property
    def end(self) -> int:
        """First logical byte behind the segment."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows and columns that a frame's elements lie in. column: that of the first element. columns 0: none."""

    columns: int = 0
    column: int = 0


NO_GRID: Final = Grid()


@dataclass(frozen=True, slots=True)
class Frame:
    """One slice of the body, to be encoded by itself. start: logical byte offset."""

    start: int
    element: ElementType
    data: Buffer
    grid: Grid = NO_GRID


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """A frame as it lies in the container: header and payload. modes: one a plane, empty for RAW.

    element: as the frame header has it: BYTES also where a typed frame gained more so.

    fell_back: the engine's own output did not decode to the input, so the frame is raw.
    """

    start: int
    element: ElementType
    logical_bytes: int
    header: bytes
    payload: Buffer
    modes: tuple[Mode, ...]
    predictor: Predictor = Predictor.NONE
    fell_back: bool = False

    @property
    def stored_bytes(self) -> int:
        """Of header and payload."""
        return len(self.header) + len(self.payload)
