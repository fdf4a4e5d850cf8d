"""Huffman: the code, the bytes, and what a reader rejects."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest

from s4weights.codec.entropy import Sample, decode_plane, histogram, huffman, huffman_code
from s4weights.codec.entropy.huffman import Huffman
from s4weights.codec.entropy.huffman_code import Code, package_merge
from s4weights.codec.errors import ChecksumMismatch, FormatError, Truncated
from s4weights.codec.types import Mode
from tests.codec.document import decode_plane as decode_as_the_document_says
from tests.codec.engines.bodies import symbols


def ANY(m: int) -> int:
    return m


def lengths_of(counts: dict[int, int], n: int = 10**6) -> dict[int, int]:
    table = np.zeros(256, dtype=np.int64)
    table[list(counts)] = list(counts.values())
    code = huffman_code.fit(Sample(table, n))
    assert code is not None
    return {int(s): int(length) for s, length in zip(code.symbols, code.lengths, strict=True) if length}


@pytest.mark.parametrize(
    "weights",
    [[1, 1], [1, 9], [1, 2, 4, 8], [5, 5, 5], [1, 1, 1, 1, 100], [3, 1, 4, 1, 5, 9], [7, 7, 7, 7, 7, 7]],
)
def test_lengths_are_the_best_there_are(weights):
    found = package_merge(weights)
    best = min(
        sum(map(int.__mul__, weights, lengths))
        for lengths in itertools.product(range(1, len(weights) + 1), repeat=len(weights))
        if sum(2.0**-length for length in lengths) <= 1
    )
    assert sum(map(int.__mul__, weights, found)) == best
    assert sum(2.0**-length for length in found) == 1


def test_lengths_stop_at_eleven():
    fibonacci = [1, 1]
    while len(fibonacci) < 25:
        fibonacci.append(sum(fibonacci[-2:]))
    found = package_merge(fibonacci)
    assert max(found) == 11
    assert sum(2 ** (11 - length) for length in found) == 2048
    assert found == sorted(found, reverse=True)
    assert set(package_merge([1] * 256)) == {8}
    skewed = package_merge([1 << min(k, 40) for k in range(256)])
    assert max(skewed) == 11
    assert sum(2 ** (11 - length) for length in skewed) == 2048


def test_of_equal_counts_the_later_in_the_table_has_the_shorter_code():
    # Three equal leaves: the first two by place are merged. Over the end of the values, 250 comes before 3.
    assert lengths_of({7: 5, 8: 5, 9: 5}) == {7: 2, 8: 2, 9: 1}
    assert lengths_of({250: 5, 254: 5, 3: 5}) == {250: 2, 254: 2, 3: 1}


def test_a_narrow_table_leaves_one_in_512_out():
    bell = {100 + k: 1000 for k in range(31)}
    total = sum(bell.values())
    allowed = total // 511
    assert len(lengths_of({**bell, 0: allowed})) == 31
    assert len(lengths_of({**bell, 0: allowed + 1})) == 32


@pytest.mark.parametrize(
    ("counts", "first", "places"),
    [
        ({0: 9, 100: 5, 130: 5}, 0, 131),
        ({0: 9, 150: 5, 180: 5}, 150, 107),
        ({0: 9, 64: 9, 128: 9, 192: 9}, 0, 193),
        (dict.fromkeys(range(256), 9), 0, 256),
    ],
    ids=["from zero", "over the end", "the first of equals", "all"],
)
def test_a_wide_table_begins_and_ends_with_a_symbol(counts, first, places):
    table = np.zeros(256, dtype=np.int64)
    table[list(counts)] = list(counts.values())
    code = huffman_code.fit(Sample(table, 10**6))
    assert code is not None
    assert (code.first, len(code.lengths)) == (first, places)


@pytest.mark.parametrize("counts", [{5: 9}, {5: 10_000, 200: 1}], ids=["one symbol", "one in the window"])
def test_fewer_than_two_codes_are_no_code(counts):
    table = np.zeros(256, dtype=np.int64)
    table[list(counts)] = list(counts.values())
    assert huffman.fit(Sample(table, 10_000)) is None


# a: 0, b: 10, c: 11; z is an exception, coded as a.
CODE = Code(ord("a"), np.array([1, 2, 2]))


def test_a_small_plane_is_these_bytes():
    plane = b"abcz" + b"c" * 28 + b"b"
    stored = Huffman(CODE).encode(plane, ANY)
    # q is 32: the second stream has one symbol, the others none. Bits, the first lowest: 0 10 11 0, then 56 ones; 10.
    first = bytes([0b11011010]) + b"\xff" * 6 + bytes([0b00111111])
    first_bits = "0" + "10" + "11" + "0" + "11" * 28
    packed = int(first_bits[::-1], 2).to_bytes(8, "little")
    assert len(first_bits) == 62
    assert packed == first
    assert stored == (
        bytes([ord("a"), 2, 0x21, 0x02]) + struct.pack("<5H", 8, 1, 0, 0, 1) + first + b"\x01" + b"\x03\0z"
    )
    assert huffman.decode(stored, len(plane)) == plane


@pytest.mark.parametrize("n", [2, 31, 32, 33, 127, 128, 129, 65_535, 65_536, 65_537, 70_000])
def test_planes_come_back(n):
    plane = bytearray(symbols(n, 0.3, n))
    plane[0] = 1
    plane[-1] = 255 if n > 1000 else 2
    stored = huffman.fit(Sample(histogram(bytes(plane)), n)).encode(bytes(plane), ANY)
    assert huffman.decode(stored, n) == plane
    assert decode_as_the_document_says(Mode.HUFFMAN, stored, n) == plane


def test_all_values_come_back():
    plane = bytes(range(256)) * 5 + bytes(3000)
    coder = huffman.fit(Sample(histogram(plane), len(plane)))
    assert len(coder.code.lengths) == 256
    assert huffman.decode(coder.encode(plane, ANY), len(plane)) == plane


def test_symbols_that_the_sample_has_not_are_exceptions():
    coder = huffman.fit(Sample(histogram(symbols(500, 0.5)), 50_000))
    plane = symbols(50_000, 0.5, seed=3)
    assert (~coder.code.is_coded()[np.frombuffer(plane, dtype=np.uint8)]).any()
    assert huffman.decode(coder.encode(plane, ANY), len(plane)) == plane


def test_the_estimate_of_a_whole_plane_is_short_of_part_bytes_only():
    plane = symbols(100_000, 0.25)
    sample = Sample(histogram(plane), len(plane))
    coder = huffman.fit(sample)
    assert 0 <= len(coder.encode(plane, ANY)) - coder.estimate(sample) <= 8


PLANE = b"aabca" * 30
GOOD = Huffman(CODE).encode(PLANE, ANY)
STREAMS = struct.unpack_from("<4H", GOOD, 4)


def changed(at: int, *octets: int) -> bytes:
    return GOOD[:at] + bytes(octets) + GOOD[at + len(octets) :]


@pytest.mark.parametrize(
    ("stored", "error", "text"),
    [
        (b"", Truncated, "first and count"),
        (GOOD[:3], Truncated, "3 lengths to 4, found 3"),
        (GOOD[:13], Truncated, "block table to 14, found 13"),
        (changed(2, 0xC1), FormatError, "at most 11, found 12"),
        (changed(2, 0, 0x01), FormatError, "found 1 that fill 1024"),
        (changed(2, 0x11, 0x01), FormatError, "found 3 that fill 3072"),
        (changed(2, 0x31, 0x02), FormatError, "found 3 that fill 1792"),
        (changed(2, 0, 0), FormatError, "found 0 that fill 0"),
        (GOOD[:-1], FormatError, "fill"),
        (GOOD + b"\0", FormatError, "fill"),
        (changed(4, STREAMS[0] + 1, 0, STREAMS[1] - 1, 0), ChecksumMismatch, "block 0 at plane byte 14, stream 0"),
        (
            changed(4, STREAMS[0] - 1, 0, STREAMS[1] + 1, 0),
            ChecksumMismatch,
            "stream 0 at its byte 0: expected 64 codes",
        ),
        (changed(6, STREAMS[1] + STREAMS[2], 0, 0, 0), ChecksumMismatch, "stream 1"),
        (changed(14, *[0xFF] * STREAMS[0]), ChecksumMismatch, "codes that end in the last"),
        (changed(14, *[0] * STREAMS[0]), ChecksumMismatch, "found 64 that end at bit 64"),
    ],
)
def test_a_reader_rejects(stored, error, text):
    with pytest.raises(FormatError, match=text) as caught:
        decode_plane(Mode.HUFFMAN, stored, len(PLANE))
    assert caught.type is error


def test_what_fills_up_is_ignored():
    stored = bytearray(GOOD)
    stored[3] |= 0xF0
    assert huffman.decode(bytes(stored), len(PLANE)) == PLANE
