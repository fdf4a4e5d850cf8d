"""Descriptors, headers that contradict themselves, bytes without a type, and where a fault lies."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from s4weights.codec.engines.payload import (
    better_untyped,
    check_layout,
    decode_untyped,
    encode_untyped,
    join_payload,
    raw_payload,
    read_planes,
)
from s4weights.codec.engines.reference import ReferenceEngine
from s4weights.codec.errors import ChecksumMismatch, FormatError, Truncated, UnsupportedVersion
from s4weights.codec.types import ElementType, Layout, Level, Mode, Predictor
from tests.codec.engines.bodies import symbols

NOISE = np.random.default_rng(0).bytes(100_000)
TEXT = b"never lose a checkpoint, never show a wrong byte; " * 40


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
@pytest.mark.parametrize(
    ("data", "modes"),
    [
        (b"x" * 5000, (Mode.CONSTANT,)),
        (b"x" * 9, ()),
        (b"x" * 10, (Mode.CONSTANT,)),
        (NOISE, ()),
        (NOISE[:500], ()),
        (TEXT, (Mode.ZSTD,)),
        (TEXT * 50, (Mode.ZSTD,)),
    ],
    ids=["constant", "no gain", "a gain of one", "long noise", "short noise", "text", "long text"],
)
def test_bytes_without_a_type_are_stored_as(data, modes, level):
    coded = encode_untyped(data, level)
    assert coded.modes == modes
    assert coded.element is ElementType.BYTES
    assert coded.layout is (Layout.PLANES if modes else Layout.RAW)
    if modes:
        assert decode_untyped(coded.payload, len(data)) == data
    else:
        assert coded.payload == data


def test_only_small_tries_zstd_where_four_looks_find_noise():
    # Text between the places that are looked at, noise there.
    data = bytearray((TEXT * 50)[:90_000])
    for i in range(4):
        start = i * (len(data) - 4096) // 3
        data[start : start + 4096] = NOISE[:4096]
    assert [encode_untyped(bytes(data), level).modes for level in Level] == [(), (), (Mode.ZSTD,)]
    assert encode_untyped(bytes(data[:65_535]), Level.FAST).modes == (Mode.ZSTD,)


def test_more_effort_makes_text_smaller():
    words = np.random.default_rng(0).choice(TEXT.split(), 20_000)
    data = b" ".join(words.tolist())
    sizes = [len(encode_untyped(data, level).payload) for level in Level]
    assert sizes[0] > sizes[1] > sizes[2]


def test_a_typed_frame_that_is_smaller_without_its_type_loses_it():
    data = np.arange(4_000, dtype="<i4").tobytes()
    coded = raw_payload(data, ElementType.I32)
    assert better_untyped(coded, data, ElementType.I32, Level.BALANCED).modes == (Mode.ZSTD,)
    assert better_untyped(coded, data, ElementType.I32, Level.FAST) is coded
    assert better_untyped(coded, data, ElementType.F32, Level.BALANCED) is coded
    noise = raw_payload(NOISE, ElementType.I32)
    assert better_untyped(noise, NOISE, ElementType.I32, Level.SMALL) is noise


@pytest.mark.parametrize(
    ("element", "predictor", "layout", "planes", "logical"),
    [
        (ElementType.BF16, Predictor.NONE, Layout.PLANES, 2, 100),
        (ElementType.BF16, Predictor.NONE, Layout.RAW, 2, 100),
        (ElementType.I16, Predictor.NONE, Layout.ROTATED_1, 2, 100),
        (ElementType.BYTES, Predictor.NONE, Layout.ROTATED_4, 1, 100),
        (ElementType.F8_E4M3, Predictor.NONE, Layout.ROTATED_1, 1, 100),
        (ElementType.I16, Predictor.LEVELS, Layout.PLANES, 2, 100),
        (ElementType.BYTES, Predictor.LEVELS, Layout.PLANES, 1, 100),
        (ElementType.BF16, Predictor.NONE, Layout.ROTATED_1, 3, 100),
        (ElementType.BF16, Predictor.NONE, Layout.ROTATED_1, 2, 101),
        (ElementType.F64, Predictor.LEVELS, Layout.ROTATED_4, 8, 0),
    ],
)
def test_headers_that_contradict_themselves_are_named(element, predictor, layout, planes, logical):
    with pytest.raises(FormatError, match="expected .* found"):
        check_layout(element, predictor, layout, planes, logical)


@pytest.mark.parametrize("element", list(ElementType), ids=lambda one: one.name)
def test_headers_that_do_not_are_taken(element):
    layouts = [Layout(k) for k in range(2, 6)] if element.is_float else [Layout.PLANES]
    for layout in layouts:
        check_layout(element, Predictor.NONE, layout, element.width, 24)
        if element.is_float:
            check_layout(element, Predictor.LEVELS, layout, element.width, 24)


@pytest.mark.parametrize(
    ("payload", "error", "text"),
    [
        (bytes(15), Truncated, "2 descriptors from byte 0, found 15 bytes"),
        (b"\x09" + bytes(15), UnsupportedVersion, "descriptor 0 at payload byte 0: expected a known mode, found 9"),
        (bytes(11) + b"\x01" + bytes(4), UnsupportedVersion, "descriptor 1 at payload byte 8: expected zero bytes"),
        (struct.pack("<IIII", 0, 2, 0, 2) + b"abc", FormatError, "descriptor 1 .* at most 1 bytes, found 2"),
        (struct.pack("<IIII", 0, 1, 0, 1) + b"abc", FormatError, "fill 19 bytes, found 18"),
        (struct.pack("<IIII", 0, 0xFFFFFFFF, 0, 1) + b"abc", FormatError, "found 4294967295"),
    ],
)
def test_descriptors_that_cannot_be_are_named(payload, error, text):
    with pytest.raises(FormatError, match=text) as caught:
        read_planes(payload, 2)
    assert caught.type is error


N = 5_000


def test_a_fault_in_a_plane_says_which_and_where():
    engine = ReferenceEngine()
    coded = join_payload(b"", [(Mode.CONSTANT, b"\x07"), (Mode.BITS, b"\x01\x01\0\0")])
    with pytest.raises(FormatError, match="plane 1 at payload byte 17: bits plane at plane byte 1: expected a value"):
        engine.decode(coded, ElementType.BF16, Predictor.NONE, Layout.ROTATED_1, 2, 2 * N)
    head = struct.pack("<IIHBB", 100, 0, 0, 0, 0)
    level_planes = [(Mode.CONSTANT, b"\x01"), (Mode.RAW, bytes(99))]
    coded = join_payload(head, [*level_planes, (Mode.CONSTANT, b"\x07"), (Mode.CONSTANT, b"\x07")])
    with pytest.raises(FormatError, match="columns at payload byte 45: raw plane: expected 100 bytes, found 99"):
        engine.decode(coded, ElementType.BF16, Predictor.LEVELS, Layout.ROTATED_1, 2, 2 * N)


def test_zstd_is_refused_in_frames_with_a_type():
    stored = encode_untyped(TEXT, Level.BALANCED).payload
    assert decode_untyped(stored, len(TEXT)) == TEXT
    with pytest.raises(UnsupportedVersion, match="plane 0 at payload byte 8: expected a mode for elements with a type"):
        ReferenceEngine().decode(stored, ElementType.U8, Predictor.NONE, Layout.PLANES, 1, len(TEXT))


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
def test_damage_gives_an_error_or_bytes_of_the_right_length(level):
    engine = ReferenceEngine()
    data = symbols(6_000, 0.35)
    coded = engine.encode(data, ElementType.U8, level=level)
    rng = np.random.default_rng(0)
    errors = 0
    for _ in range(150):
        changed = bytearray(coded.payload)
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
        if rng.random() < 0.3:
            del changed[int(rng.integers(len(changed))) :]
        try:
            found = engine.decode(bytes(changed), coded.element, coded.predictor, coded.layout, 1, len(data))
            assert len(found) == len(data)
        except FormatError as error:
            errors += 1
            assert "expected" in str(error)
            assert type(error) in (FormatError, Truncated, ChecksumMismatch, UnsupportedVersion)
    assert errors > 30
