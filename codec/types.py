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
    def is_rotated(self) -> bool:
        """Whether planes are taken after a rotation left by one bit (sign behind the mantissa)."""
        return self in _ROTATED


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
_ROTATED: Final = frozenset({ElementType.BF16, ElementType.F16, ElementType.F32, ElementType.F64})


class Predictor(enum.IntEnum):
    """What is taken from a frame before its planes are made."""

    NONE = 0


class Layout(enum.IntEnum):
    """How a frame's payload is made from its elements."""

    RAW = 0  # the logical bytes themselves, no plane descriptors
    BYTE_PLANES = 1  # plane k holds byte k of every element
    ROTATED_PLANES = 2  # the same after each element was rotated left by one bit


class Mode(enum.IntEnum):
    """The entropy stage of one plane."""

    RAW = 0
    CONSTANT = 1
    RANS = 2
    ZSTD = 3


class Kind(enum.Enum):
    """What `sniff` takes a body for."""

    UNKNOWN = "unknown"
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
class Frame:
    """One slice of the body, to be encoded by itself. start: logical byte offset."""

    start: int
    element: ElementType
    data: Buffer


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """A frame as it lies in the container: header and payload. modes: one a plane, empty for RAW.

    fell_back: the engine's own output did not decode to the input, so the frame is raw.
    """

    start: int
    element: ElementType
    logical_bytes: int
    stored: bytes
    modes: tuple[Mode, ...]
    fell_back: bool = False
