"""rANS against a decoder written from the document alone, and every rule that a reader must enforce."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from s4weights.codec import _native
from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.entropy import Sample, histogram, rans
from s4weights.codec.errors import ChecksumMismatch, FormatError, Truncated
from s4weights.codec.types import ElementType, Layout, Predictor
from tests.codec.document import decode_rans
from tests.native.payloads import FASTEST_SIMD, INSTRUCTION_SETS


def skewed(n: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).geometric(0.35, n).clip(0, 255).astype(np.uint8).tobytes()


@pytest.mark.parametrize("n", [2, 31, 32, 33, 1000, 65_536, 65_537, 70_001])
def test_a_decoder_made_from_the_document_reads_what_we_write(n):
    plane = b"\xfe" + skewed(n - 1, n)
    assert decode_rans(rans.encode(plane), n) == plane


def test_a_small_plane_is_these_bytes():
    # Two symbols, 3 to 1: frequencies 3072 and 1024 (0xC00 and 0x400); only the four first lanes move away from 65536.
    stored = rans.encode(b"aaba")
    present = bytearray(32)
    present[ord("a") // 8] = 0b110
    a, b = 65536 // 3072 * 4096 + 65536 % 3072, 65536 // 1024 * 4096 + 3072
    assert stored == bytes(present) + bytes([0x00, 0x0C, 0x40]) + struct.pack("<I32I", 128, a, a, b, a, *[65536] * 28)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({0: 1, 1: 1}, {0: 2048, 1: 2048}),
        ({0: 65_535, 7: 1}, {0: 4095, 7: 1}),
        ({5: 1, 9: 1, 200: 1}, {5: 1366, 9: 1365, 200: 1365}),
        ({0: 1 << 20, **dict.fromkeys(range(1, 256), 1)}, {0: 3841, **dict.fromkeys(range(1, 256), 1)}),
    ],
    ids=["half", "nearly all", "one missing", "all rare"],
)
def test_frequencies_are_these(counts, expected):
    table = np.zeros(256, dtype=np.int64)
    table[list(counts)] = list(counts.values())
    found = rans.normalise(table)
    assert {int(s): int(found[s]) for s in np.flatnonzero(found)} == expected


def test_logarithms_are_rounded_down():
    for f in (1, 2, 3, 1000, 4095):
        found = rans._log2_q8(f)
        assert 2**found <= f**256 < 2 ** (found + 1)


def test_one_symbol_promises_nothing():
    assert rans.promise(Sample(histogram(bytes(500)), 70_000)) == 70_000


def test_stored_bytes_are_within_one_per_cent_of_the_entropy():
    plane = skewed(1 << 18)
    shares = histogram(plane)[histogram(plane) > 0] / len(plane)
    bound = -(shares * np.log2(shares)).sum() * len(plane) / 8
    assert bound < len(rans.encode(plane)) <= 1.01 * bound


def test_frequencies_sum_to_the_scale_for_any_counts():
    rng = np.random.default_rng(0)
    for spread in (2, 3, 20, 200, 256):
        counts = np.zeros(256, dtype=np.int64)
        counts[:spread] = np.maximum(1, rng.pareto(0.3, spread).clip(0, 1e9).astype(np.int64))
        frequencies = rans.normalise(counts)
        assert frequencies.sum() == rans.SCALE
        assert (frequencies[counts > 0] > 0).all()
        assert frequencies.max() < rans.SCALE


@pytest.mark.parametrize("n", [1_000, 65_536, 300_000])
def test_the_promise_is_kept_but_for_what_the_states_hold(n):
    plane = skewed(n)
    promised = rans.promise(Sample(histogram(plane), n))
    # At the end 32 states hold up to 16 bits each that no word was written for.
    assert -0.005 * promised <= promised - len(rans.encode(plane)) <= 64 * rans.chunk_count(n) + 0.005 * promised


N = 5_000
STORED = rans.encode(skewed(N))
SYMBOLS = len(set(skewed(N)))
LENGTHS = rans.table_bytes(SYMBOLS)
STATES = LENGTHS + 4


def changed(at: int, code: str, value: int) -> bytes:
    copy = bytearray(STORED)
    struct.pack_into(code, copy, at, value)
    return bytes(copy)


def first_frequency(change: Callable[[int], int]) -> bytes:
    pair = struct.unpack_from("<H", STORED, 32)[0]
    return changed(32, "<H", pair & 0xF000 | change(pair & 0x0FFF))


def length_plus(change: int) -> bytes:
    return changed(LENGTHS, "<I", len(STORED) - STATES + change)


DAMAGE = {
    "no symbol": (bytes(32) + STORED[32:], FormatError),
    "one symbol": (b"\x01" + bytes(31) + b"\xff\x0f" + STORED[LENGTHS:], FormatError),
    "frequency zero": (first_frequency(lambda f: 0), FormatError),
    "frequency 4095": (first_frequency(lambda f: 4095), FormatError),
    "sum too small": (first_frequency(lambda f: f - 1), FormatError),
    "sum too great": (first_frequency(lambda f: f + 1), FormatError),
    "length below the states": (changed(LENGTHS, "<I", 126), FormatError),
    "length odd": (length_plus(-1), FormatError),
    "length past the end": (length_plus(2), FormatError),
    "length of 4 GiB": (changed(LENGTHS, "<I", 0xFFFFFFFE), FormatError),
    "bytes after the chunks": (STORED + b"\0\0", FormatError),
    "state too low": (changed(STATES, "<I", 65_535), FormatError),
    "state zero": (changed(STATES + 4 * 31, "<I", 0), FormatError),
    "word left over": (length_plus(2) + b"\0\0", ChecksumMismatch),
    "last word changed": (changed(len(STORED) - 2, "<H", STORED[-2] ^ 1), FormatError),
    "word missing": (length_plus(-2)[:-2], Truncated),
    "nothing": (b"", Truncated),
    "half a table": (STORED[:33], Truncated),
    "no lengths": (STORED[:LENGTHS], Truncated),
}


@pytest.mark.parametrize("simd", INSTRUCTION_SETS)
@pytest.mark.parametrize("engine", [NativeEngine(), ReferenceEngine()], ids=lambda one: one.name)
@pytest.mark.parametrize("name", DAMAGE)
def test_a_reader_rejects(name, engine, simd):
    stored, error = DAMAGE[name]
    payload = struct.pack("<B3xI", 2, len(stored)) + stored
    _native.set_simd(simd)
    try:
        with pytest.raises(error, match="expected"):
            engine.decode(payload, ElementType.U8, Predictor.NONE, Layout.PLANES, 1, N)
    finally:
        _native.set_simd(FASTEST_SIMD)


@pytest.mark.parametrize("engine", [NativeEngine(), ReferenceEngine()], ids=lambda one: one.name)
def test_an_engine_says_which_plane_and_where(engine):
    stored, _ = DAMAGE["state too low"]
    payload = struct.pack("<B3xIB3xI", 1, 1, 2, len(stored)) + b"\x07" + stored
    with pytest.raises(FormatError, match="plane 1 at payload byte 17: .*expected .*states"):
        engine.decode(payload, ElementType.BF16, Predictor.NONE, Layout.ROTATED_1, 2, 2 * N)


@pytest.mark.parametrize("engine", [NativeEngine(), ReferenceEngine()], ids=lambda one: one.name)
@pytest.mark.parametrize("n", [1, N - 1, N + 1, 65_537])
def test_another_length_than_was_encoded_is_an_error(engine, n):
    payload = struct.pack("<B3xI", 2, len(STORED)) + STORED
    with pytest.raises(FormatError, match="expected"):
        engine.decode(payload, ElementType.U8, Predictor.NONE, Layout.PLANES, 1, n)
