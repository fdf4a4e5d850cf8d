"""Bodies to containers and back: identical, bounded, and never wrong."""

from __future__ import annotations

import io
import os
from dataclasses import replace

import numpy as np
import pytest

from s4weights.codec.container import FRAME_HEADER_BYTES, HEADER_BYTES, TRAILER_BYTES, FrameHeader
from s4weights.codec.decode import decode_frame, iter_body, read_tail
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import ReferenceEngine
from s4weights.codec.errors import FormatError
from s4weights.codec.limits import FRAME_BYTES
from s4weights.codec.types import ElementType, EncodedFrame, Frame, Grid, Layout, Level, Mode, Predictor

from .engines.bodies import moments, symbols
from .samples import NATIVE, SAMPLES, normal, pack, safetensors_raw, unpack


def stored_bytes(frame: EncodedFrame) -> bytes:
    stored = frame.header + bytes(frame.payload)
    assert len(stored) == frame.stored_bytes
    return stored


def checkpoint(size: int) -> bytes:
    header = {"w": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}
    return safetensors_raw(header, normal(size // 2))


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_comes_back_from_both_engines(name, level):
    body = SAMPLES[name]()
    container, _ = pack(body, level=level)
    assert unpack(container) == body
    assert unpack(container, ReferenceEngine()) == body


def test_more_effort_gives_a_smaller_container():
    body = SAMPLES["torch"]()
    fast, balanced, small = (len(pack(body, level=level)[0]) for level in Level)
    assert small < balanced < fast < 0.8 * len(body)


@pytest.mark.parametrize("size", [FRAME_BYTES - 2, FRAME_BYTES, FRAME_BYTES + 2, 3 * FRAME_BYTES + 10])
def test_sizes_around_a_frame(size):
    body = checkpoint(size)
    container, _ = pack(body)
    assert unpack(container) == body
    assert len(container) < 0.7 * len(body)


@pytest.mark.parametrize("cut", [1, 2, 5_000, 100_001])
def test_a_body_that_ends_within_a_tensor(cut):
    body = checkpoint(300_000)[:-cut]
    assert unpack(pack(body)[0]) == body


def test_random_bytes_cost_their_headers_only():
    body = os.urandom(3 * FRAME_BYTES)
    container, encoder = pack(body)
    frames = encoder.totals.frames
    assert encoder.totals.stored_bytes == len(body) + frames * FRAME_HEADER_BYTES
    assert len(container) < len(body) + HEADER_BYTES + frames * FRAME_HEADER_BYTES + TRAILER_BYTES + 300


def test_a_range_needs_its_own_frames_only():
    body = checkpoint(4 * FRAME_BYTES)
    container, _ = pack(body)
    index = read_tail(container, object_bytes=len(container)).index
    assert index is not None
    for first, length in [(0, 1), (FRAME_BYTES, 10), (len(body) - 1, 1), (FRAME_BYTES - 5, 3 * FRAME_BYTES)]:
        spans = index.spans(first, length)
        pieces = [
            decode_frame(container[one.stored_start :][: one.stored_bytes], NATIVE, expected=one) for one in spans
        ]
        start = first - spans[0].start
        assert b"".join(pieces)[start : start + length] == body[first : first + length]


def test_a_tail_that_does_not_reach_the_index_has_none():
    container, _ = pack(checkpoint(300_000))
    assert read_tail(container[-TRAILER_BYTES:], object_bytes=len(container)).index is None


def test_flipped_bits_in_every_region_are_named_errors():
    body = checkpoint(60_000)
    container, _ = pack(body)
    rng = np.random.default_rng(0)
    places = [*range(200), *rng.integers(0, len(container), 200), *range(len(container) - 500, len(container))]
    for place in places:
        changed = bytearray(container)
        changed[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(FormatError, match="expected"):
            unpack(bytes(changed))


def test_truncations_and_additions_are_named_errors():
    container, _ = pack(checkpoint(60_000))
    for size in (0, 5, 16, 30, 1000, len(container) - 1):
        with pytest.raises(FormatError, match="expected"):
            unpack(container[:size])
    with pytest.raises(FormatError, match="expected the end"):
        unpack(container + b"x")


SMALL = [b"", bytes(64), b"never show a wrong byte; " * 8, np.random.default_rng(0).bytes(60)]


@pytest.mark.parametrize("engine", [NATIVE, ReferenceEngine()], ids=lambda one: one.name)
@pytest.mark.parametrize("body", SMALL, ids=["empty", "zeros", "text", "noise"])
def test_no_flipped_bit_and_no_cut_of_a_small_container_gives_wrong_bytes(body, engine):
    container, _ = pack(body)
    for bit in range(len(container) * 8):
        changed = bytearray(container)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError, match="expected"):
            unpack(bytes(changed), engine)
    for size in range(len(container)):
        with pytest.raises(FormatError, match="expected"):
            unpack(container[:size], engine)


@pytest.mark.parametrize("kind", ["f16", "f64"])
@pytest.mark.parametrize("engine", [NATIVE, ReferenceEngine()], ids=lambda one: one.name)
def test_damaged_typed_frames_are_never_wrong_bytes(kind, engine):
    element = ElementType[kind.upper()]
    stored = stored_bytes(encode_frame(Frame(0, element, normal(4_000, kind)), NATIVE))
    rng = np.random.default_rng(1)
    for place in rng.integers(0, len(stored), 150):
        changed = bytearray(stored)
        changed[place] ^= 1 << int(rng.integers(8))
        for damaged in (changed, stored[:place]):
            with pytest.raises(FormatError, match="expected"):
                decode_frame(bytes(damaged), engine)


@pytest.mark.parametrize("size", [1, 7, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1])
def test_sizes_of_untyped_bodies(size):
    for body in (b"ab" * (size // 2) + b"c" * (size % 2), os.urandom(size)):
        container, encoder = pack(body)
        assert unpack(container) == body
        assert encoder.totals.frames == -(-size // FRAME_BYTES)


def test_frames_out_of_place_are_found():
    container, _ = pack(checkpoint(3 * FRAME_BYTES))
    index = read_tail(container, object_bytes=len(container)).index
    assert index is not None
    a, b = index.span(1), index.span(2)
    swapped = container[: a.stored_start] + container[b.stored_start :][: b.stored_bytes]
    swapped += container[a.stored_start :][: a.stored_bytes] + container[b.stored_start + b.stored_bytes :]
    with pytest.raises(FormatError, match="expected logical bytes"):
        unpack(swapped)


class Unfaithful:
    """An engine with a flipped bit in its output. place: the byte of the payload."""

    name = "unfaithful"

    def __init__(self, place: int) -> None:
        self.place = place

    def encode(self, data, element, **options):
        coded = NATIVE.encode(data, element, **options)
        payload = bytearray(coded.payload)
        payload[self.place] ^= 1
        return replace(coded, payload=bytes(payload))

    def decode(self, *arguments):
        return NATIVE.decode(*arguments)

    def decodes_to(self, *arguments):
        return NATIVE.decodes_to(*arguments)


FAITHFUL = {
    ElementType.BF16: Frame(0, ElementType.BF16, normal(20_000)),
    ElementType.F32: Frame(0, ElementType.F32, moments(200, 64, ElementType.F32), Grid(64, 0)),
    ElementType.I16: Frame(0, ElementType.I16, symbols(20_000, 0.3)),
    ElementType.BYTES: Frame(0, ElementType.BYTES, b"abcdefgh" * 5_000),
}


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
@pytest.mark.parametrize("element", FAITHFUL, ids=lambda one: one.name)
def test_a_frame_that_fails_its_round_trip_is_stored_raw_and_counted(element, level):
    frame = FAITHFUL[element]
    good = encode_frame(frame, NATIVE, level)
    assert (good.fell_back, bool(good.modes)) == (False, True)
    for share in (0, 0.3, 0.9):
        found = encode_frame(frame, Unfaithful(int(share * len(good.payload))), level)
        assert (found.fell_back, found.modes, found.predictor) == (True, (), Predictor.NONE)
        assert found.stored_bytes == FRAME_HEADER_BYTES + len(frame.data)
        assert decode_frame(stored_bytes(found), NATIVE) == frame.data
        encoder = Encoder()
        encoder.add(found)
        assert encoder.totals.fallbacks == 1


def test_without_verification_a_wrong_frame_is_found_by_its_reader():
    """Why verification is for measuring only."""
    frame = FAITHFUL[ElementType.BF16]
    wrong = encode_frame(frame, Unfaithful(5_000), verify=False)
    assert not wrong.fell_back
    with pytest.raises(FormatError, match="expected"):
        decode_frame(stored_bytes(wrong), NATIVE)


def test_an_encoded_frame_says_how_it_is_stored():
    zeros = encode_frame(Frame(0, ElementType.F32, bytes(40_000)), NATIVE)
    assert zeros.modes == (Mode.CONSTANT,) * 4
    predicted = encode_frame(FAITHFUL[ElementType.F32], NATIVE)
    assert (predicted.element, predicted.predictor, len(predicted.modes)) == (ElementType.F32, Predictor.LEVELS, 4)
    assert NATIVE.encode(normal(50_000), ElementType.BF16).layout is Layout.ROTATED_1


def test_a_typed_frame_that_is_smaller_as_bytes_says_so_in_its_header():
    data = np.arange(20_000, dtype="<i8").tobytes()
    frame = encode_frame(Frame(0, ElementType.I64, data), NATIVE)
    assert (frame.element, frame.modes) == (ElementType.BYTES, (Mode.ZSTD,))
    assert FrameHeader.parse(frame.header).element is ElementType.BYTES
    assert decode_frame(stored_bytes(frame), ReferenceEngine()) == data


def test_a_source_that_gives_little_at_a_time():
    body = checkpoint(100_000)

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(7, size or 0))

    assert b"".join(iter_body(Slow(pack(body)[0]), NATIVE)) == body


def test_a_tensor_of_more_columns_than_32_bits_count():
    # As flat parameters with one row are; the body ends long before its tensor does.
    columns = 5 << 30
    header = {"w": {"dtype": "BF16", "shape": [1, columns], "data_offsets": [0, 2 * columns]}}
    body = safetensors_raw(header, normal(50_000))
    assert unpack(pack(body)[0]) == body
