"""rANS against a decoder written from the document alone, and every rule that a reader must enforce."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from s4weights.codec import _native
from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.entropy import rans
from s4weights.codec.errors import ChecksumMismatch, FormatError, Truncated
from s4weights.codec.types import ElementType, Layout


def skewed(n: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).geometric(0.35, n).clip(0, 255).astype(np.uint8).tobytes()


def decode_as_the_document_says(stored: bytes, n: int) -> bytes:
    """docs/format.md, section 4, word by word."""
    present = [s for s in range(256) if stored[s // 8] >> s % 8 & 1]
    frequencies = struct.unpack_from(f"<{len(present)}H", stored, 32)
    symbol_at = [(s, f, k) for s, f in zip(present, frequencies, strict=True) for k in range(f)]
    at = 32 + 2 * len(present)
    lengths = struct.unpack_from(f"<{-(-n // 65536)}I", stored, at)
    at += 4 * len(lengths)
    out = bytearray()
    for length in lengths:
        states = list(struct.unpack_from("<32I", stored, at))
        words = iter(struct.unpack_from(f"<{(length - 128) // 2}H", stored, at + 128))
        for i in range(min(65536, n - len(out))):
            x = states[i % 32]
            s, f, offset = symbol_at[x % 4096]
            x = f * (x // 4096) + offset
            states[i % 32] = x * 65536 + next(words) if x < 65536 else x
            out.append(s)
        assert states == [65536] * 32
        assert next(words, None) is None
        at += length
    assert at == len(stored)
    return bytes(out)


@pytest.mark.parametrize("n", [2, 31, 32, 33, 1000, 65_536, 65_537, 70_001])
def test_a_decoder_made_from_the_document_reads_what_we_write(n):
    plane = b"\xfe" + skewed(n - 1, n)
    assert decode_as_the_document_says(_native.rans_encode(plane), n) == plane


def test_a_small_plane_is_these_bytes():
    # Two symbols, 3 to 1: frequencies 3072 and 1024; only the four first lanes move away from 65536.
    stored = rans.encode(b"aaba")
    present = bytearray(32)
    present[ord("a") // 8] = 0b110
    a, b = 65536 // 3072 * 4096 + 65536 % 3072, 65536 // 1024 * 4096 + 3072
    assert stored == bytes(present) + struct.pack("<2HI32I", 3072, 1024, 128, a, a, b, a, *[65536] * 28)
    assert _native.rans_encode(b"aaba") == stored


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


@pytest.mark.parametrize("n", [1_000, 65_536, 300_000])
def test_the_promise_is_kept_but_for_what_the_states_hold(n):
    plane = skewed(n)
    counts = rans.histogram(plane)
    promised = rans.estimate_bytes(counts, rans.normalise(counts), n)
    # At the end 32 states hold up to 16 bits each that no word was written for.
    assert -0.005 * promised <= promised - len(rans.encode(plane)) <= 64 * -(-n // 65_536) + 0.005 * promised


N = 5_000
STORED = rans.encode(skewed(N))
SYMBOLS = len(set(skewed(N)))
LENGTHS = 32 + 2 * SYMBOLS
STATES = LENGTHS + 4


def changed(at: int, code: str, value: int) -> bytes:
    copy = bytearray(STORED)
    struct.pack_into(code, copy, at, value)
    return bytes(copy)


def first_frequency(change: Callable[[int], int]) -> bytes:
    return changed(32, "<H", change(struct.unpack_from("<H", STORED, 32)[0]))


def length_plus(change: int) -> bytes:
    return changed(LENGTHS, "<I", len(STORED) - STATES + change)


DAMAGE = {
    "no symbol": (bytes(32) + STORED[32:], FormatError),
    "one symbol": (b"\x01" + bytes(31) + b"\x00\x10" + STORED[LENGTHS:], FormatError),
    "frequency zero": (first_frequency(lambda f: 0), FormatError),
    "frequency 65535": (first_frequency(lambda f: 65_535), FormatError),
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


@pytest.mark.parametrize("simd", ["avx2", "scalar"])
@pytest.mark.parametrize("engine", [NativeEngine(), ReferenceEngine()], ids=lambda one: one.name)
@pytest.mark.parametrize("name", DAMAGE)
def test_a_reader_rejects(name, engine, simd):
    stored, error = DAMAGE[name]
    payload = struct.pack("<B3xI", 2, len(stored)) + stored
    _native.set_simd(simd)
    try:
        with pytest.raises(error, match="expected"):
            engine.decode(payload, ElementType.U8, Layout.BYTE_PLANES, 1, N)
    finally:
        _native.set_simd("avx2")


def test_the_native_engine_says_which_plane_and_where():
    stored, _ = DAMAGE["state too low"]
    payload = struct.pack("<B3xIB3xI", 1, 1, 2, len(stored)) + b"\x07" + stored
    with pytest.raises(FormatError, match="plane 1 at payload byte 17: expected lane states"):
        NativeEngine().decode(payload, ElementType.BF16, Layout.ROTATED_PLANES, 2, 2 * N)


@pytest.mark.parametrize("engine", [NativeEngine(), ReferenceEngine()], ids=lambda one: one.name)
@pytest.mark.parametrize("n", [1, N - 1, N + 1, 65_537])
def test_another_length_than_was_encoded_is_an_error(engine, n):
    payload = struct.pack("<B3xI", 2, len(STORED)) + STORED
    with pytest.raises(FormatError, match="expected"):
        engine.decode(payload, ElementType.U8, Layout.BYTE_PLANES, 1, n)
