"""The C++ kernels: a whole frame in one call, without the GIL."""

from __future__ import annotations

from typing import Final

from .. import _native
from ..errors import ChecksumMismatch, FormatError, LimitExceeded, Truncated, UnsupportedVersion
from ..types import NO_GRID, Buffer, ElementType, Grid, Layout, Level, Mode, Predictor
from .interface import EncodedPayload
from .payload import better_untyped, check_layout, decode_untyped, encode_untyped, raw_payload

# The first word of a kernel's message is its kind of fault.
_FAULTS: Final[dict[str, type[FormatError]]] = {
    "truncated": Truncated,
    "checksum": ChecksumMismatch,
    "limit": LimitExceeded,
    "mode": UnsupportedVersion,
    "reserved": UnsupportedVersion,
}


class NativeEngine:
    """AVX2 where the machine has it, portable C++ elsewhere."""

    name = "native"

    def __init__(self, *, huffman: bool = True) -> None:
        """huffman: False writes rANS instead, as a GPU does."""
        self._huffman = huffman

    def encode(
        self, data: Buffer, element: ElementType, *, grid: Grid = NO_GRID, level: Level = Level.BALANCED
    ) -> EncodedPayload:
        """See Engine."""
        if element is ElementType.BYTES:
            return encode_untyped(data, level)
        coded = _native.encode_payload(
            data, element.width, element.octave_bits, grid.columns, grid.column, level.value, self._huffman
        )
        if coded is None:
            return better_untyped(raw_payload(data, element), data, element, level)
        predicted, rotation, modes, payload = coded
        typed = EncodedPayload(
            element, Predictor(predicted), Layout(1 + rotation), tuple(Mode(mode) for mode in modes), payload
        )
        return better_untyped(typed, data, element, level)

    def decode(
        self,
        payload: Buffer,
        element: ElementType,
        predictor: Predictor,
        layout: Layout,
        planes: int,
        logical_bytes: int,
    ) -> bytes:
        """See Engine."""
        check_layout(element, predictor, layout, planes, logical_bytes)
        if element is ElementType.BYTES and bytes(payload[:1]) == bytes([Mode.ZSTD]):
            return decode_untyped(payload, logical_bytes)
        try:
            return _native.decode_payload(
                payload, element.width, element.octave_bits, layout.rotation, bool(predictor), logical_bytes
            )
        except ValueError as error:
            kind, _, text = str(error).partition(": ")
            raise _FAULTS.get(kind, FormatError)(text) from None

    def decodes_to(self, coded: EncodedPayload, data: Buffer) -> bool:
        """See Engine."""
        if coded.element is ElementType.BYTES:
            return decode_untyped(coded.payload, len(data)) == data
        return _native.verify_payload(
            coded.payload,
            coded.element.width,
            coded.element.octave_bits,
            coded.layout.rotation,
            bool(coded.predictor),
            data,
        )
