"""The C++ kernels: a whole frame in one call, without the GIL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .. import _native
from ..entropy import nvcomp_ans
from ..errors import ChecksumMismatch, FormatError, LimitExceeded, Truncated, UnsupportedVersion
from ..types import NO_GRID, Base, Buffer, ElementType, Grid, Layout, Level, Mode, Predictor
from .interface import EncodedPayload
from .payload import better_untyped, check_base, check_layout, decode_untyped, encode_untyped, raw_payload, read_planes

# The first word of a kernel's message is its kind of fault.
FAULTS: Final[dict[str, type[FormatError]]] = {
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
        self,
        data: Buffer,
        element: ElementType,
        *,
        grid: Grid = NO_GRID,
        level: Level = Level.BALANCED,
        bases: Sequence[Base] = (),
    ) -> EncodedPayload:
        """See Engine."""
        if element is ElementType.BYTES:
            return encode_untyped(data, level, bases)
        offered: list[tuple[int, object]] = [(one.kind, one.data) for one in bases]
        coded = _native.encode_payload(
            data, element.width, element.octave_bits, grid.columns, grid.column, level.value, self._huffman, offered
        )
        if coded is None:
            return better_untyped(raw_payload(data, element), data, element, level)
        predictor, base, layout, modes, payload = coded
        typed = EncodedPayload(
            element, Predictor(predictor), Layout(layout), tuple(Mode(mode) for mode in modes), payload, base
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
        base: Buffer | None = None,
    ) -> bytes:
        """See Engine."""
        check_layout(element, predictor, layout, planes, logical_bytes)
        check_base(predictor, logical_bytes, base)
        is_zstd = bytes(payload[:1]) == bytes([Mode.ZSTD])
        if element is ElementType.BYTES and layout is not Layout.RAW and (is_zstd or base is not None):
            return decode_untyped(payload, logical_bytes, base)
        try:
            return _native.decode_payload(
                payload, element.width, element.octave_bits, predictor, layout, logical_bytes, base
            )
        except ValueError as error:
            kind, _, text = str(error).partition(": ")
            if kind == "mode":
                text = _named(text, payload, predictor, planes)
            raise FAULTS.get(kind, FormatError)(text) from None

    def decodes_to(self, coded: EncodedPayload, data: Buffer, base: Buffer | None = None) -> bool:
        """See Engine."""
        if coded.element is ElementType.BYTES and coded.layout is not Layout.RAW:
            return decode_untyped(coded.payload, len(data), base) == data
        width, octave_bits = coded.element.width, coded.element.octave_bits
        return _native.verify_payload(coded.payload, width, octave_bits, coded.predictor, coded.layout, data, base)


def _named(text: str, payload: Buffer, predictor: Predictor, planes: int) -> str:
    """What reads a plane that the kernels do not; text where nothing is known of it."""
    if predictor is Predictor.LEVELS:
        return text
    try:
        found = [
            (k, stored) for k, (mode, stored) in enumerate(read_planes(payload, planes)) if mode is Mode.NVCOMP_ANS
        ]
    except FormatError:
        return text
    return f"plane {found[0][0]}: {nvcomp_ans.missing(found[0][1])}" if found else text
