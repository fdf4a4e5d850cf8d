"""Planes as the format says, and the same from the kernels."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from s4weights.codec import _native
from s4weights.codec.errors import FormatError
from s4weights.codec.planes import join_planes, split_planes
from s4weights.codec.types import ElementType

BF16_ONE, BF16_MINUS_ONE = b"\x80\x3f", b"\x80\xbf"


@pytest.mark.parametrize(
    ("element", "data", "planes"),
    [
        # Rotated left by one: 3F80 is 7F00, BF80 is 7F01: the sign in bit 0 of plane 0, the exponent last.
        (ElementType.BF16, BF16_ONE + BF16_MINUS_ONE, [b"\x00\x01", b"\x7f\x7f"]),
        (ElementType.F32, struct.pack("<2f", 1, -1), [b"\x00\x01", b"\0\0", b"\0\0", b"\x7f\x7f"]),
        (ElementType.F16, struct.pack("<2e", 1, -1), [b"\x00\x01", b"\x78\x78"]),
        (ElementType.F64, struct.pack("<d", -1), [b"\x01", *[b"\0"] * 5, b"\xe0", b"\x7f"]),
        (ElementType.I16, b"\x01\x02\x03\x04", [b"\x01\x03", b"\x02\x04"]),
        (ElementType.U8, b"abc", [b"abc"]),
    ],
    ids=lambda one: one.name if isinstance(one, ElementType) else None,
)
def test_bytes_lie_where_the_format_says(element, data, planes):
    assert split_planes(data, element) == planes
    assert join_planes(planes, element) == data
    assert _native.split_planes(data, element.width, element.is_rotated) == b"".join(planes)


@pytest.mark.parametrize("simd", ["avx2", "scalar"])
@pytest.mark.parametrize("element", list(ElementType), ids=lambda one: one.name)
@pytest.mark.parametrize("count", [1, 7, 1023, 1024, 1025, 5000])
def test_kernels_equal_the_reference(element, count, simd):
    data = np.random.default_rng(count).bytes(count * element.width)
    planes = split_planes(data, element)
    _native.set_simd(simd)
    try:
        assert _native.split_planes(data, element.width, element.is_rotated) == b"".join(planes)
        assert _native.join_planes(b"".join(planes), element.width, element.is_rotated) == data
    finally:
        _native.set_simd("avx2")
    assert join_planes(planes, element) == data


def test_half_an_element_is_named():
    with pytest.raises(FormatError, match="multiple of 4 bytes, found 7"):
        split_planes(bytes(7), ElementType.F32)


@pytest.mark.parametrize("planes", [[b"ab"], [b"ab", b"a"], [b"a", b"b", b"c"]])
def test_planes_that_do_not_fit_are_named(planes):
    with pytest.raises(FormatError, match="expected 2 of one length"):
        join_planes(planes, ElementType.BF16)
