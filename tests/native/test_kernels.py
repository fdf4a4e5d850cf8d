"""The binding: known answers of CRC32C, any buffer, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec import _native
from s4weights.codec.types import BaseKind, ElementType, Grid
from tests.codec.engines.bodies import moments
from tests.native.payloads import EXAMPLES, coded, encode, pair


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


@pytest.mark.parametrize("size", [1, 7, 8, 9, 255, 256, 257, 511, 512, 775, 3071, 3072, 3073, 6144, 9221])
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
    settings = (one.frame, 1, 0, 0, 0, "fast", True, [])
    with pytest.raises(ValueError, match=f"out: expected room for {bound} bytes"):
        _native.encode_payload_into(*settings, bytearray(bound - 1))
    assert _native.encode_payload_into(*settings, bytearray(bound)) is not None
    with pytest.raises(BufferError):
        _native.encode_payload_into(*settings, bytes(bound))
    with pytest.raises(BufferError):
        _native.decode_payload_into(one.payload, *one.header, bytes(len(one.frame)))
    with pytest.raises(ValueError, match="expected"):
        _native.decode_payload_into(one.payload[:-1], *one.header, bytearray(len(one.frame)))


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
    "decode_payload": lambda data: _native.decode_payload(data, 1, 0, 0, 1, 4),
    "verify_payload": lambda data: _native.verify_payload(data, 1, 0, 0, 1, b"abcd"),
    "encode_payload's base": lambda data: encode(b"abcd", ElementType.U8, bases=[(BaseKind.SAME, data)]),
    "decode_payload's base": lambda data: _native.decode_payload(b"", 1, 0, 2, 0, 4, data),
    "verify_payload's frame": lambda data: _native.verify_payload(b"abcd", 1, 0, 0, 1, data),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("wrong", "error"), [(memoryview(b"abcd")[::2], BufferError), ("text", TypeError)])
def test_what_is_no_contiguous_buffer_is_refused(call, wrong, error):
    with pytest.raises(error):
        CALLS[call](wrong)


OCTAVE_BITS = "octave_bits: expected 0, or 5, 8 or 11"
LAYOUT = "layout: expected one for these elements"
PREDICTOR = "predictor: expected"
# width, octave_bits, predictor, layout
WRONG_HEADERS = {
    "width 0": ((0, 0, 0, 1), "width: expected 1, 2, 4 or 8"),
    "width 3": ((3, 0, 0, 1), "width: expected 1, 2, 4 or 8"),
    "width 16": ((16, 0, 0, 1), "width: expected 1, 2, 4 or 8"),
    "octave of one bit": ((4, 1, 0, 2), OCTAVE_BITS),
    "octave of three bits": ((4, 3, 0, 2), OCTAVE_BITS),
    "octave of sixteen bits": ((4, 16, 0, 2), OCTAVE_BITS),
    "octave of a byte": ((1, 8, 0, 2), OCTAVE_BITS),
    "float without planes": ((4, 8, 0, 0), LAYOUT),
    "float not rotated": ((4, 8, 0, 1), LAYOUT),
    "float rotated by five": ((4, 8, 0, 6), LAYOUT),
    "float rotated by 2^32 - 2": ((4, 8, 0, (1 << 32) - 1), LAYOUT),
    "integer rotated": ((4, 0, 0, 2), LAYOUT),
    "levels of integers": ((4, 0, 1, 1), PREDICTOR),
    "levels without planes": ((4, 8, 1, 0), LAYOUT),
    "xor of floats not rotated": ((4, 8, 2, 1), LAYOUT),
    "xor of floats rotated by two": ((4, 8, 2, 3), LAYOUT),
    "xor of integers rotated": ((4, 0, 2, 2), LAYOUT),
    "difference rotated": ((2, 8, 3, 2), LAYOUT),
    "difference without planes": ((2, 8, 3, 0), LAYOUT),
    "narrowed fp16": ((2, 11, 4, 2), PREDICTOR),
    "narrowed fp32": ((4, 8, 4, 2), PREDICTOR),
    "narrowed not rotated": ((2, 8, 4, 1), LAYOUT),
    "widened bf16": ((2, 8, 5, 1), PREDICTOR),
    "widened integers": ((4, 0, 5, 1), PREDICTOR),
    "widened rotated": ((4, 8, 5, 2), LAYOUT),
    "widened without planes": ((4, 8, 5, 0), LAYOUT),
    "predictor 6": ((4, 8, 6, 2), PREDICTOR),
    "predictor 256": ((4, 8, 256, 2), PREDICTOR),
}


@pytest.mark.parametrize("name", WRONG_HEADERS)
def test_headers_that_do_not_exist_are_refused(name):
    header, text = WRONG_HEADERS[name]
    with pytest.raises(ValueError, match=text):
        _native.decode_payload(bytes(48), *header, 48, bytes(48))
    with pytest.raises(ValueError, match=text):
        _native.verify_payload(bytes(48), *header, bytes(48), bytes(48))
    if text.startswith(("width", "octave_bits")):
        with pytest.raises(ValueError, match=text):
            _native.encode_payload(bytes(48), *header[:2], 0, 0, "balanced", True, [])


@pytest.mark.parametrize("name", ["xor", "difference", "narrowed", "widened", "copy", "rounded copy"])
def test_a_base_of_another_length_or_none_is_refused_and_not_read(name, simd):
    one = EXAMPLES[name]()
    assert one.base is not None
    for wrong in (None, b"", one.base[:-1], one.base + b"x", one.base[: len(one.base) // 2], one.base * 2):
        text = f"lengths: base: expected {len(one.base)} bytes, found {len(wrong or b'')}"
        with pytest.raises(ValueError, match=text):
            _native.decode_payload(one.payload, *one.header, len(one.frame), wrong)
        with pytest.raises(ValueError, match=text):
            _native.decode_payload_into(one.payload, *one.header, bytearray(len(one.frame)), wrong)
        with pytest.raises(ValueError, match=text):
            _native.verify_payload(one.payload, *one.header, one.frame, wrong)
        if wrong is None:
            continue
        with pytest.raises(ValueError, match=f"bases: expected {len(one.base)} bytes, found {len(wrong)}"):
            encode(one.frame, one.element, bases=[one.bases[0], (one.bases[0][0], wrong)])


def test_a_base_where_none_is_needed_is_refused():
    one = EXAMPLES["rANS"]()
    with pytest.raises(ValueError, match="lengths: base: expected 0 bytes, found 4"):
        _native.decode_payload(one.payload, *one.header, len(one.frame), b"abcd")


@pytest.mark.parametrize(
    ("element", "kind"),
    [(ElementType.F16, 1), (ElementType.F32, 1), (ElementType.BF16, 2), (ElementType.I32, 2), (ElementType.F32, 3)],
)
def test_bases_of_kinds_that_do_not_fit_are_refused(element, kind):
    with pytest.raises(ValueError, match="bases: expected kind 0, or 1 for bf16, or 2 for fp32"):
        encode(bytes(64), element, bases=[(kind, bytes(64))])


def test_what_is_no_pair_of_kind_and_elements_is_refused():
    for wrong in ((0, bytes(64), 1), (0,), bytes(64), (None, bytes(64)), (-1, bytes(64)), ("0", bytes(64))):
        with pytest.raises(ValueError, match="bases: expected pairs of kind and elements"):
            encode(bytes(64), ElementType.F32, bases=[wrong])


def test_a_payload_of_a_frame_that_is_its_base_is_refused():
    frame, base = pair(100, ElementType.F32, BaseKind.SAME, 0)
    with pytest.raises(ValueError, match="lengths: expected no payload"):
        _native.decode_payload(b"x", 4, 8, 2, 0, len(frame), base)
    assert not _native.verify_payload(b"x", 4, 8, 2, 0, frame, base)


def test_half_an_element_is_refused():
    for call in (
        lambda: _native.encode_payload(bytes(7), 2, 8, 0, 0, "fast", True, []),
        lambda: _native.decode_payload(bytes(7), 2, 8, 0, 2, 7),
        lambda: _native.verify_payload(bytes(7), 2, 8, 0, 2, bytes(7)),
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
    with pytest.raises(ValueError, match="scalar, avx2 or avx512"):
        _native.set_simd("avx3")
