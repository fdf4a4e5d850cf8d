"""Nibbles: where the codes lie, and what a reader rejects."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec.entropy import Sample, decode_plane, histogram, nibbles
from s4weights.codec.entropy.nibbles import Nibbles
from s4weights.codec.errors import FormatError, Truncated
from s4weights.codec.types import Mode
from tests.codec.document import decode_plane as decode_as_the_document_says


def ANY(m: int) -> int:
    return m


def test_a_small_plane_is_these_bytes():
    # 40 symbols: 32 in the low halves, 8 in the high ones. Number 1 is an exception, of which 4 bits are kept.
    plane = bytearray([100] * 40)
    plane[1], plane[2], plane[32], plane[39] = 100 + 0x37, 101, 102, 115
    stored = Nibbles(100).encode(bytes(plane), ANY)
    block = bytearray(32)
    block[0], block[1], block[2], block[7] = 0x20, 0x07, 0x01, 0xF0
    assert stored == bytes([100]) + b"\x01\0" + block + b"\x01\0" + bytes([100 + 0x37])
    assert nibbles.decode(stored, 40) == plane


@pytest.mark.parametrize(
    ("plane", "first"),
    [
        (bytes(range(30, 46)), 30),
        (b"\xff\x00\x01", 242),
        (bytes(256), 0),
        (bytes(range(256)), 0),
        (b"\x0f\x10" * 9, 1),
    ],
    ids=["sixteen", "over the end", "one symbol", "uniform", "two"],
)
def test_the_window_is_the_first_of_those_that_hold_most(plane, first):
    assert nibbles.fit(Sample(histogram(plane), len(plane))) == Nibbles(first)


@pytest.mark.parametrize("first", [0, 100, 250])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 63, 64, 65, 65_535, 65_537, 131_100])
def test_planes_come_back(n, first):
    rng = np.random.default_rng(n)
    plane = ((rng.integers(0, 16, n) + first) % 256).astype(np.uint8)
    plane[rng.random(n) < 0.01] ^= 0x80
    stored = Nibbles(first).encode(plane.tobytes(), ANY)
    assert nibbles.decode(stored, n) == plane.tobytes()
    assert decode_as_the_document_says(Mode.NIBBLES, stored, n) == plane.tobytes()


def test_the_estimate_of_a_whole_plane_is_exact():
    plane = np.random.default_rng(0).normal(90, 5, 128_000).astype(np.uint8).tobytes()
    sample = Sample(histogram(plane), len(plane))
    found = nibbles.fit(sample)
    assert found.estimate(sample) == len(found.encode(plane, ANY))


def test_too_many_exceptions_in_one_block_are_not_encoded():
    assert Nibbles(0).encode(bytes(100 * [16]) + bytes(900), lambda m: m // 10) is not None
    assert Nibbles(0).encode(bytes(101 * [16]) + bytes(899), lambda m: m // 10) is None


GOOD = Nibbles(5).encode(bytes([5, 6, 30, 20, 40]), ANY)


@pytest.mark.parametrize(
    ("stored", "error", "text"),
    [
        (b"", Truncated, "first symbol"),
        (GOOD[:2], Truncated, "block table to 3, found 2"),
        (GOOD[:-1], FormatError, "fill 40 bytes, found 41"),
        (GOOD + b"\0", FormatError, "fill 42 bytes, found 41"),
        (GOOD[:1] + b"\x01\0" + GOOD[3:], FormatError, "found 38"),
        (GOOD[:35] + b"\x05\0" + GOOD[37:], FormatError, "positions below 5, found 5 as number 0"),
        (GOOD[:37] + b"\x02\0" + GOOD[39:], FormatError, "found 2 as number 1"),
    ],
)
def test_a_reader_rejects(stored, error, text):
    assert len(GOOD) == 41
    with pytest.raises(FormatError, match=text) as caught:
        decode_plane(Mode.NIBBLES, stored, 5)
    assert caught.type is error
