"""Bodies to containers and back: identical, bounded, and never wrong."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest

from s4weights.codec.container import FRAME_HEADER_BYTES, HEADER_BYTES, TRAILER_BYTES
from s4weights.codec.decode import decode_frame, iter_body, read_tail
from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import EncodedPayload, ReferenceEngine
from s4weights.codec.errors import FormatError
from s4weights.codec.limits import FRAME_BYTES
from s4weights.codec.types import ElementType, Frame, Layout, Mode

from .samples import NATIVE, SAMPLES, normal, pack, safetensors_raw, unpack


def checkpoint(size: int) -> bytes:
    header = {"w": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}
    return safetensors_raw(header, normal(size // 2))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_comes_back_from_both_engines(name):
    body = SAMPLES[name]()
    container, _ = pack(body)
    assert unpack(container) == body
    assert unpack(container, ReferenceEngine()) == body


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
    stored = encode_frame(Frame(0, element, normal(4_000, kind)), NATIVE).stored
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
    """An engine whose output does not decode to its input."""

    name = "unfaithful"

    def encode(self, data, element):
        coded = NATIVE.encode(data, element)
        payload = bytearray(coded.payload)
        payload[len(payload) // 2] ^= 1
        return EncodedPayload(coded.layout, coded.modes, bytes(payload))

    def decode(self, *arguments):
        return NATIVE.decode(*arguments)


@pytest.mark.parametrize("element", [ElementType.BF16, ElementType.BYTES])
def test_a_frame_that_fails_its_round_trip_is_stored_raw_and_counted(element):
    data = normal(20_000) if element is ElementType.BF16 else b"abcdefgh" * 5_000
    frame = encode_frame(Frame(0, element, data), Unfaithful())
    assert frame.fell_back
    assert frame.modes == ()
    assert decode_frame(frame.stored, NATIVE) == data


def test_modes_say_how_planes_are_stored():
    frame = encode_frame(Frame(0, ElementType.F32, bytes(40_000)), NATIVE)
    assert frame.modes == (Mode.CONSTANT,) * 4
    assert NATIVE.encode(normal(50_000), ElementType.BF16).layout is Layout.ROTATED_PLANES


def test_a_source_that_gives_little_at_a_time():
    body = checkpoint(100_000)

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(7, size or 0))

    assert b"".join(iter_body(Slow(pack(body)[0]), NATIVE)) == body
