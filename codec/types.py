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
    XOR = 2  # the elements in the same place of a base
    DIFFERENCE = 3  # the same, subtracted, as ordered integers
    NARROWED = 4  # bf16, from the fp32 elements that were rounded to them
    WIDENED = 5  # fp32, from the bf16 elements that they round to

    @property
    def needs_base(self) -> bool:
        """Whether a frame can be decoded only with other bytes at hand."""
        return self >= Predictor.XOR

    @property
    def base_kind(self) -> BaseKind:
        """What it is predicted from; of predictors that need a base."""
        return {Predictor.NARROWED: BaseKind.WIDER, Predictor.WIDENED: BaseKind.NARROWER}.get(self, BaseKind.SAME)

    def fits(self, element: ElementType) -> bool:
        """Whether frames of these elements may have it."""
        match self:
            case Predictor.LEVELS:
                return element.is_float
            case Predictor.DIFFERENCE:
                return element is not ElementType.BYTES
            case Predictor.NARROWED:
                return element is ElementType.BF16
            case Predictor.WIDENED:
                return element is ElementType.F32
            case _:
                return True

    @property
    def is_frame(self) -> bool:
        """Whether a frame may be just what is predicted: layout RAW."""
        return self is Predictor.XOR or self is Predictor.NARROWED


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
    NVCOMP_ANS = 8  # read only where nvCOMP of the same major version is


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


class BaseKind(enum.IntEnum):
    """The element type of a base, beside that of the frame."""

    SAME = 0
    WIDER = 1  # fp32 for a frame of bf16
    NARROWER = 2  # bf16 for a frame of fp32

    def base_bytes(self, frame_bytes: int) -> int:
        """Bytes of as many elements of the base as there are in so many bytes of the frame."""
        if self is BaseKind.WIDER:
            return 2 * frame_bytes
        return frame_bytes // 2 if self is BaseKind.NARROWER else frame_bytes


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a base's elements lie. number: 0 this body, k the k-th of the container's bases. start: logical byte there."""

    number: int
    start: int


@dataclass(frozen=True, slots=True)
class BaseRange:
    """Elements that a frame may be, or is, predicted from. length: logical bytes there."""

    reference: Reference
    kind: BaseKind
    length: int


@dataclass(frozen=True, slots=True)
class Base:
    """Elements that a frame may be predicted from, as many as the frame has."""

    reference: Reference
    kind: BaseKind
    data: Buffer


@dataclass(frozen=True, slots=True)
class Frame:
    """One slice of the body, to be encoded by itself.

    start: logical byte offset. bases: offered, in order. segments: those that it lies in, in order.
    """

    start: int
    element: ElementType
    data: Buffer
    grid: Grid = NO_GRID
    bases: tuple[Base, ...] = ()
    segments: tuple[Segment, ...] = ()

    @property
    def end(self) -> int:
        """First logical byte behind the frame."""
        return self.start + len(self.data)


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """A frame as it lies in the container: header and payload. modes: one a plane, empty for RAW.

    element: as the frame header has it: BYTES also where a typed frame gained more so. base: what it is predicted from.

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
    base: Reference | None = None

    @property
    def stored_bytes(self) -> int:
        """Of header and payload."""
        return len(self.header) + len(self.payload)
