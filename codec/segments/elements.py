"""How torch, numpy and others call the types of elements. What has no type of ours is read as one of the same planes."""

from __future__ import annotations

from typing import Final

from ..types import ElementType

# Of a torch storage. UntypedStorage: only the tensor says what it holds.
STORAGES: Final = {
    "BFloat16Storage": ElementType.BF16,
    "HalfStorage": ElementType.F16,
    "FloatStorage": ElementType.F32,
    "DoubleStorage": ElementType.F64,
    "CharStorage": ElementType.I8,
    "ByteStorage": ElementType.U8,
    "ShortStorage": ElementType.I16,
    "IntStorage": ElementType.I32,
    "LongStorage": ElementType.I64,
    "BoolStorage": ElementType.BOOL,
    "ComplexFloatStorage": ElementType.F32,
    "ComplexDoubleStorage": ElementType.F64,
    "QInt8Storage": ElementType.I8,
    "QUInt8Storage": ElementType.U8,
    "QInt32Storage": ElementType.I32,
    "QUInt4x2Storage": ElementType.U8,
    "QUInt2x4Storage": ElementType.U8,
    "UntypedStorage": ElementType.BYTES,
}
# A complex number is two floats: numel counts it once.
COMPLEX_STORAGES: Final = frozenset({"ComplexFloatStorage", "ComplexDoubleStorage"})

# Of a tensor in an UntypedStorage: type, and how many of it make an element of torch's.
DTYPES: Final = {
    "float8_e4m3fn": (ElementType.F8_E4M3, 1),
    "float8_e5m2": (ElementType.F8_E5M2, 1),
    "float8_e8m0fnu": (ElementType.F8_E8M0, 1),
    "float8_e4m3fnuz": (ElementType.U8, 1),
    "float8_e5m2fnuz": (ElementType.U8, 1),
    "float4_e2m1fn_x2": (ElementType.U8, 1),
    "uint16": (ElementType.U16, 1),
    "uint32": (ElementType.U32, 1),
    "uint64": (ElementType.U64, 1),
    "complex32": (ElementType.F16, 2),
    "bfloat16": (ElementType.BF16, 1),
    "float16": (ElementType.F16, 1),
    "float32": (ElementType.F32, 1),
    "float64": (ElementType.F64, 1),
    "complex64": (ElementType.F32, 2),
    "complex128": (ElementType.F64, 2),
    "int8": (ElementType.I8, 1),
    "uint8": (ElementType.U8, 1),
    "int16": (ElementType.I16, 1),
    "int32": (ElementType.I32, 1),
    "int64": (ElementType.I64, 1),
    "bool": (ElementType.BOOL, 1),
}

_UNSIGNED: Final = {2: ElementType.U16, 4: ElementType.U32, 8: ElementType.U64}


def big_endian(element: ElementType) -> ElementType:
    """The type whose planes fit an element stored with its highest byte first: bytes as they lie, not rotated."""
    return _UNSIGNED.get(element.width, element)
