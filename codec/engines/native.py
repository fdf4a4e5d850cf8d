"""The C++ kernels: a whole frame in one call, without the GIL."""

from __future__ import annotations

from typing import Final

from .. import _native
from ..errors import ChecksumMismatch, FormatError, Truncated, UnsupportedVersion
from ..types import Buffer, ElementType, Layout, Mode
from .interface import EncodedPayload
from .payload import check_layout, decode_untyped, encode_untyped, layout_of

# The first word of a kernel's message is its kind of fault.
_FAULTS: Final[dict[str, type[FormatError]]] = {
    "truncated": Truncated,
    "checksum": ChecksumMismatch,
    "mode": UnsupportedVersion,
    "reserved": UnsupportedVersion,
}


class NativeEngine:
    """AVX2 where the machine has it, portable C++ elsewhere."""

    name = "native"

    def encode(self, data: Buffer, element: ElementType) -> EncodedPayload:
        """See Engine."""
        if element is ElementType.BYTES:
            return encode_untyped(data)
        coded = _native.encode_payload(data, element.width, element.is_rotated)
        if coded is None:
            return EncodedPayload(Layout.RAW, (), data)
        modes, payload = coded
        return EncodedPayload(layout_of(element), tuple(Mode(mode) for mode in modes), payload)

    def decode(self, payload: Buffer, element: ElementType, layout: Layout, planes: int, logical_bytes: int) -> bytes:
        """See Engine."""
        check_layout(element, layout, planes, logical_bytes)
        if element is ElementType.BYTES:
            return decode_untyped(payload, logical_bytes)
        try:
            return _native.decode_payload(payload, element.width, element.is_rotated, logical_bytes)
        except ValueError as error:
            kind, _, text = str(error).partition(": ")
            raise _FAULTS.get(kind, FormatError)(text) from None
