"""The oracle: numpy, slow, easy to read."""

from __future__ import annotations

from ..entropy import decode_plane, encode_plane
from ..planes import join_planes, split_planes
from ..types import Buffer, ElementType, Layout
from .interface import EncodedPayload
from .payload import check_layout, decode_untyped, encode_untyped, make_payload, read_planes


class ReferenceEngine:
    """What every other engine must equal."""

    name = "reference"

    def encode(self, data: Buffer, element: ElementType) -> EncodedPayload:
        """See Engine."""
        if element is ElementType.BYTES:
            return encode_untyped(data)
        return make_payload(data, element, [encode_plane(plane) for plane in split_planes(data, element)])

    def decode(self, payload: Buffer, element: ElementType, layout: Layout, planes: int, logical_bytes: int) -> bytes:
        """See Engine."""
        check_layout(element, layout, planes, logical_bytes)
        if element is ElementType.BYTES:
            return decode_untyped(payload, logical_bytes)
        n = logical_bytes // element.width
        return join_planes([decode_plane(mode, stored, n) for mode, stored in read_planes(payload, planes)], element)
