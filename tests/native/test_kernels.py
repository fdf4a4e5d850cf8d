"""The binding: known answers of CRC32C, any buffer, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec import _native
from s4weights.codec.types import ElementType, Grid
from tests.codec.engines.bodies import moments
from tests.native.payloads import EXAMPLES, coded, encode


def crc_by_bits(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# RFC 3720, B.4, and the polynomial's usual check value.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
    ],
)
def test_crc32c_gives_the_known_answers(data, expected, simd):
    assert _native.crc32c(data) == expected


@pytest.mark.parametrize("size", [1, 7, 8, 9, 3071, 3072, 3073, 6144, 9221])
def test_crc32c_at_sizes_around_its_runs(size, simd):
    data = np.random.default_rng(size).bytes(size)
    assert _native.crc32c(data) == crc_by_bits(data)


@pytest.mark.parametrize("cut", [0, 1, 3072, 5000, 10_000])
def test_crc32c_continues(cut, simd):
    data = np.random.default_rng(2).bytes(10_000)
    assert _native.crc32c(data[cut:], _native.crc32c(data[:cut])) == _native.crc32c(data)


def test_room_that_cannot_be_written_or_is_too_small_is_refused():
    one = EXAMPLES["bits"]()
    bound = _native.encode_bound_bytes(len(one.frame), 1)
    settings = (one.frame, 1, 0, 0, 0, "fast", True)
    with pytest.raises(ValueError, match=f"out: expected room for {bound} bytes"):
        _native.encode_payload_into(*settings, bytearray(bound - 1))
    assert _native.encode_payload_into(*settings, bytearray(bound)) is not None
    with pytest.raises(BufferError):
        _native.encode_payload_into(*settings, bytes(bound))
    with pytest.raises(BufferError):
        _native.decode_payload_into(one.payload, *one.layout, bytes(len(one.frame)))
    with pytest.raises(ValueError, match="expected"):
        _native.decode_payload_into(one.payload[:-1], *one.layout, bytearray(len(one.frame)))


BUFFERS = {
    "bytearray": bytearray,
    "memoryview": memoryview,
    "unaligned": lambda data: memoryview(b"x" + data)[1:],
    "numpy": lambda data: np.frombuffer(data, np.uint8),
    "two dimensions": lambda data: np.frombuffer(data, np.uint8).reshape(1, -1),
}


@pytest.mark.parametrize("kind", BUFFERS)
def test_any_contiguous_buffer_is_read_as_it_lies(kind):
    make = BUFFERS[kind]
    one = coded(moments(100, 64, ElementType.F32), ElementType.F32, grid=Grid(64, 0))
    assert _native.crc32c(make(one.frame)) == _native.crc32c(one.frame)
    assert coded(make(one.frame), ElementType.F32, grid=Grid(64, 0)).payload == one.payload
    assert one.decode(make(one.payload)) == one.frame
    assert one.is_verified(make(one.payload), make(one.frame))


CALLS = {
    "crc32c": _native.crc32c,
    "encode_payload": lambda data: encode(data, ElementType.U8),
    "decode_payload": lambda data: _native.decode_payload(data, 1, 0, 0, False, 4),
    "verify_payload": lambda data: _native.verify_payload(data, 1, 0, 0, False, b"abcd"),
    "verify_payload's frame": lambda data: _native.verify_payload(b"abcd", 1, 0, 0, False, data),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("wrong", "error"), [(memoryview(b"abcd")[::2], BufferError), ("text", TypeError)])
def test_what_is_no_contiguous_buffer_is_refused(call, wrong, error):
    with pytest.raises(error):
        CALLS[call](wrong)


# width, octave_bits, rotation, predicted
WRONG_LAYOUTS = {
    "width 0": ((0, 0, 0, False), "width: expected 1, 2, 4 or 8"),
    "width 3": ((3, 0, 0, False), "width: expected 1, 2, 4 or 8"),
    "width 16": ((16, 0, 0, False), "width: expected 1, 2, 4 or 8"),
    "octave of one bit": ((4, 1, 1, False), "octave_bits: expected 0, or 5, 8 or 11"),
    "octave of three bits": ((4, 3, 1, False), "octave_bits: expected 0, or 5, 8 or 11"),
    "octave of sixteen bits": ((4, 16, 1, False), "octave_bits: expected 0, or 5, 8 or 11"),
    "octave of a byte": ((1, 8, 1, False), "octave_bits: expected 0, or 5, 8 or 11 and more than one byte"),
    "float not rotated": ((4, 8, 0, False), "rotation: expected 1 to 4 for floats, else 0"),
    "float rotated by five": ((4, 8, 5, False), "rotation: expected 1 to 4 for floats, else 0"),
    "float rotated by 2^63": ((4, 8, 1 << 63, False), "rotation: expected 1 to 4 for floats, else 0"),
    "integer rotated": ((4, 0, 1, False), "rotation: expected 1 to 4 for floats, else 0"),
    "integer predicted": ((4, 0, 0, True), "predicted: expected floats"),
}


@pytest.mark.parametrize("name", WRONG_LAYOUTS)
def test_layouts_that_do_not_exist_are_refused(name):
    layout, text = WRONG_LAYOUTS[name]
    with pytest.raises(ValueError, match=text):
        _native.decode_payload(bytes(48), *layout, 48)
    with pytest.raises(ValueError, match=text):
        _native.verify_payload(bytes(48), *layout, bytes(48))
    if not text.startswith(("rotation", "predicted")):
        with pytest.raises(ValueError, match=text):
            _native.encode_payload(bytes(48), *layout[:2], 0, 0, "balanced", True)


def test_half_an_element_is_refused():
    for call in (
        lambda: _native.encode_payload(bytes(7), 2, 8, 0, 0, "fast", True),
        lambda: _native.decode_payload(bytes(7), 2, 8, 1, False, 7),
        lambda: _native.verify_payload(bytes(7), 2, 8, 1, False, bytes(7)),
    ):
        with pytest.raises(ValueError, match="multiple of width"):
            call()


@pytest.mark.parametrize("level", ["", "Fast", "best", "balanced\0"])
def test_levels_that_do_not_exist_are_refused(level):
    with pytest.raises(ValueError, match="level: expected fast, balanced or small"):
        encode(bytes(100), ElementType.F32, level)


@pytest.mark.parametrize("grid", [Grid(1, 1), Grid(64, 64), Grid(64, 0xFFFFFFFF)], ids=lambda one: str(one.column))
def test_a_first_column_outside_the_columns_is_refused(grid):
    with pytest.raises(ValueError, match="column: expected one of columns"):
        encode(bytes(400), ElementType.F32, grid=grid)


def test_unknown_instruction_sets_are_refused():
    with pytest.raises(ValueError, match="scalar or avx2"):
        _native.set_simd("avx3")
