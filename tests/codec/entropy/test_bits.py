"""Bits: which are stored, where they lie, and what a reader rejects."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec.entropy import Sample, bits, decode_plane, histogram
from s4weights.codec.entropy.bits import Bits
from s4weights.codec.errors import FormatError, Truncated
from s4weights.codec.types import Mode
from tests.codec.document import decode_plane as decode_as_the_document_says


def ANY(m: int) -> int:
    return m


def fitted(plane: bytes) -> Bits:
    return bits.fit(Sample(histogram(plane), len(plane)))


def test_a_small_plane_is_these_bytes():
    # Bits 0 and 7 vary; bit 5 is always set. The fourth symbol has bit 1 as well: an exception.
    plane = bytes([0x20, 0x21, 0xA0, 0xA3, 0xA1, 0x20, 0x20, 0x21, 0x21])
    stored = Bits(mask=0x81, value=0x20).encode(plane, ANY)
    assert stored == bytes([0x81, 0x20]) + b"\x01\0" + bytes([0b10011010, 1, 0b00011100, 0]) + b"\x03\0\xa3"
    assert bits.decode(stored, len(plane)) == plane


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({0: 100}, Bits(0, 0)),
        ({0xFF: 100}, Bits(0, 0xFF)),
        # 3 of 96 is not more than 96 div 32; 4 of 100 is more than 3.
        ({0: 93, 8: 3}, Bits(0, 0)),
        ({0: 96, 8: 4}, Bits(8, 0)),
        ({0: 90, 8: 3}, Bits(8, 0)),
        ({4: 50, 6: 50}, Bits(2, 4)),
        # Of equals 0: one of two, and one is not more than 2 div 32 times only where there are fewer.
        ({1: 1}, Bits(0, 1)),
        ({0: 1, 1: 1}, Bits(1, 0)),
    ],
)
def test_the_bits_that_vary_are_stored(counts, expected):
    table = np.zeros(256, dtype=np.int64)
    table[list(counts)] = list(counts.values())
    assert bits.fit(Sample(table, 1000)) == expected


@pytest.mark.parametrize("n", [1, 7, 8, 9, 65_535, 65_536, 65_537, 131_080])
def test_planes_come_back(n):
    rng = np.random.default_rng(n)
    plane = rng.choice([3, 7, 67, 71], n).astype(np.uint8)
    plane[rng.random(n) < 0.01] = 200
    stored = Bits(mask=0x44, value=3).encode(plane.tobytes(), ANY)
    assert bits.decode(stored, n) == plane.tobytes()
    assert decode_as_the_document_says(Mode.BITS, stored, n) == plane.tobytes()


def test_the_estimate_of_a_whole_plane_is_exact():
    plane = np.random.default_rng(0).choice([0, 1, 2, 3, 9], 80_000, p=[0.3, 0.3, 0.2, 0.19, 0.01]).astype(np.uint8)
    found = fitted(plane.tobytes())
    assert len(found.encode(plane.tobytes(), ANY)) == found.estimate(Sample(histogram(plane.tobytes()), 80_000))


def test_too_many_exceptions_in_one_block_are_not_encoded():
    plane = bytes(100_000) + bytes(500 * [9])
    most = {65_536: 0, 34_964: 500}
    assert bits.decode(Bits(0, 0).encode(plane, most.__getitem__), len(plane)) == plane
    most[34_964] = 499
    assert Bits(0, 0).encode(plane, most.__getitem__) is None


GOOD = Bits(mask=0x03, value=0x40).encode(bytes([0x40, 0x41, 0x42, 0x80, 0x43, 0x81]), ANY)


@pytest.mark.parametrize(
    ("stored", "error", "text"),
    [
        (b"", Truncated, "mask and value"),
        (b"\x03", Truncated, "mask and value"),
        (GOOD[:3], Truncated, "block table to 4, found 3"),
        (b"\x03\x41" + GOOD[2:], FormatError, "mask 0x03, value 0x41"),
        (GOOD[:-1], FormatError, "fill 11 bytes, found 12"),
        (GOOD + b"\0", FormatError, "fill 13 bytes, found 12"),
        (b"\x07" + GOOD[1:], FormatError, "found 13"),
        (GOOD[:2] + b"\xff\xff" + GOOD[4:], FormatError, "found 196611"),
        (GOOD[:6] + b"\x06\0" + GOOD[8:], FormatError, "ascending positions below 6, found 6 as number 0"),
        (GOOD[:6] + b"\x05\0\x05\0" + GOOD[10:], FormatError, "found 5 as number 1"),
        (GOOD[:6] + b"\x05\0\x03\0" + GOOD[10:], FormatError, "found 3 as number 1"),
    ],
)
def test_a_reader_rejects(stored, error, text):
    assert len(GOOD) == 12
    with pytest.raises(FormatError, match=text) as caught:
        decode_plane(Mode.BITS, stored, 6)
    assert caught.type is error


def test_bits_that_fill_up_are_ignored():
    changed = bytearray(GOOD)
    changed[4] |= 0xC0
    assert bits.decode(bytes(changed), 6) == bits.decode(GOOD, 6)
