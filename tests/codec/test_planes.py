"""Planes as the format says."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from s4weights.codec.errors import FormatError
from s4weights.codec.planes import join_planes, split_planes
from s4weights.codec.types import ElementType, Layout

BF16_ONE, BF16_MINUS_ONE = b"\x80\x3f", b"\x80\xbf"


@pytest.mark.parametrize(
    ("element", "layout", "data", "planes"),
    [
        # Rotated left by one: 3F80 is 7F00, BF80 is 7F01: the sign in bit 0 of plane 0, the exponent last.
        (ElementType.BF16, Layout.ROTATED_1, BF16_ONE + BF16_MINUS_ONE, [b"\x00\x01", b"\x7f\x7f"]),
        (ElementType.F32, Layout.ROTATED_1, struct.pack("<2f", 1, -1), [b"\x00\x01", b"\0\0", b"\0\0", b"\x7f\x7f"]),
        (ElementType.F16, Layout.ROTATED_1, struct.pack("<2e", 1, -1), [b"\x00\x01", b"\x78\x78"]),
        (ElementType.F64, Layout.ROTATED_1, struct.pack("<d", -1), [b"\x01", *[b"\0"] * 5, b"\xe0", b"\x7f"]),
        # By four: 3F80 is F803, BF80 is F80B: three bits of the exponent below the sign.
        (ElementType.BF16, Layout.ROTATED_4, BF16_ONE + BF16_MINUS_ONE, [b"\x03\x0b", b"\xf8\xf8"]),
        (ElementType.I16, Layout.PLANES, b"\x01\x02\x03\x04", [b"\x01\x03", b"\x02\x04"]),
        (ElementType.U8, Layout.PLANES, b"abc", [b"abc"]),
    ],
    ids=lambda one: one.name if isinstance(one, ElementType | Layout) else None,
)
def test_bytes_lie_where_the_format_says(element, layout, data, planes):
    assert split_planes(data, element, layout) == planes
    assert join_planes(planes, element, layout) == data


@pytest.mark.parametrize("layout", list(Layout)[1:], ids=lambda one: one.name)
@pytest.mark.parametrize("element", list(ElementType), ids=lambda one: one.name)
def test_planes_hold_the_bytes_of_rotated_elements(element, layout):
    width, bits = element.width, 8 * element.width
    data = np.random.default_rng(width).bytes(1025 * width)
    planes = split_planes(data, element, layout)
    turn = layout.rotation
    for i in (0, 1, 500, 1024):
        word = int.from_bytes(data[i * width : (i + 1) * width], "little")
        turned = (word << turn | word >> (bits - turn)) & ((1 << bits) - 1)
        assert bytes(plane[i] for plane in planes) == turned.to_bytes(width, "little")
    assert join_planes(planes, element, layout) == data


def test_half_an_element_is_named():
    with pytest.raises(FormatError, match="multiple of 4 bytes, found 7"):
        split_planes(bytes(7), ElementType.F32, Layout.ROTATED_1)


@pytest.mark.parametrize("planes", [[b"ab"], [b"ab", b"a"], [b"a", b"b", b"c"]])
def test_planes_that_do_not_fit_are_named(planes):
    with pytest.raises(FormatError, match="expected 2 of one length"):
        join_planes(planes, ElementType.BF16, Layout.ROTATED_1)
