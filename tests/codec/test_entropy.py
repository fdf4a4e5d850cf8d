"""What a writer chooses for a plane, and what a reader demands of each mode."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zstandard

from s4weights.codec.entropy import decode_plane, encode_bytes, encode_plane, zstd
from s4weights.codec.errors import FormatError, LimitExceeded
from s4weights.codec.types import Mode

NOISE = np.random.default_rng(0).bytes(20_000)
SKEWED = np.random.default_rng(0).geometric(0.35, 20_000).clip(0, 255).astype(np.uint8).tobytes()
TEXT = b"never lose a checkpoint, never show a wrong byte; " * 40
# 250 of 256 values at random: rANS would save less than a 128th.
NEARLY_NOISE = np.random.default_rng(0).integers(0, 250, 20_000, dtype=np.uint8).tobytes()


@pytest.mark.parametrize(
    ("plane", "mode"),
    [
        (b"x", Mode.CONSTANT),
        (b"x" * 5000, Mode.CONSTANT),
        (b"xy", Mode.RAW),
        (NOISE, Mode.RAW),
        (NEARLY_NOISE, Mode.RAW),
        (SKEWED, Mode.RANS),
    ],
    ids=["one byte", "constant", "two bytes", "noise", "nearly noise", "skewed"],
)
def test_planes_with_a_type_are_stored_as(plane, mode):
    found, stored = encode_plane(plane)
    assert found is mode
    assert decode_plane(found, stored, len(plane)) == plane


@pytest.mark.parametrize(
    ("plane", "mode"),
    [(b"x" * 5000, Mode.CONSTANT), (NOISE, Mode.RAW), (TEXT, Mode.ZSTD)],
    ids=["constant", "noise", "text"],
)
def test_bytes_without_a_type_are_stored_as(plane, mode):
    found, stored = encode_bytes(plane)
    assert found is mode
    assert decode_plane(found, stored, len(plane)) == plane


@pytest.mark.parametrize("mode", [Mode.RAW, Mode.CONSTANT])
@pytest.mark.parametrize("stored", [b"", b"ab"])
def test_a_stored_length_that_cannot_be_is_named(mode, stored):
    with pytest.raises(FormatError, match="found"):
        decode_plane(mode, stored, 5)


FRAME = zstd.encode(TEXT)
WIDE = zstandard.ZstdCompressionParameters(compression_level=3, window_log=25, write_content_size=0)


def streamed(data: bytes) -> bytes:
    """A frame whose size is not known beforehand, so that its window stays as asked for."""
    stream = zstandard.ZstdCompressor(compression_params=WIDE).compressobj()
    return stream.compress(data) + stream.flush()


@pytest.mark.parametrize(
    ("stored", "n"),
    [
        (FRAME, len(TEXT) - 1),
        (FRAME, len(TEXT) + 1),
        (FRAME[:-1], len(TEXT)),
        (FRAME + b"x", len(TEXT)),
        (FRAME + FRAME, 2 * len(TEXT)),
        (b"", len(TEXT)),
        (NOISE, len(TEXT)),
        (b"\x50\x2a\x4d\x18\x04\0\0\0abcd", 4),
        (zstandard.ZstdCompressor().compress(bytes(1 << 26)), 1000),
    ],
    ids=["longer", "shorter", "cut", "more bytes", "two frames", "nothing", "noise", "skippable", "announces more"],
)
def test_a_zstd_plane_that_is_not_one_whole_frame_is_named(stored, n):
    with pytest.raises(FormatError, match="expected"):
        decode_plane(Mode.ZSTD, stored, n)


def test_a_zstd_window_past_the_limit_is_refused():
    with pytest.raises(LimitExceeded, match="found 33554432"):
        decode_plane(Mode.ZSTD, streamed(TEXT), len(TEXT))


def test_a_zstd_frame_that_announces_its_size_is_read():
    assert decode_plane(Mode.ZSTD, zstandard.ZstdCompressor().compress(TEXT), len(TEXT)) == TEXT


def test_threads_do_not_share_a_compressor():
    planes = [bytes([k]) * 3000 + TEXT for k in range(16)]
    with ThreadPoolExecutor(8) as pool:
        coded = list(pool.map(encode_bytes, planes * 4))
        found = list(pool.map(lambda one: decode_plane(*one, len(planes[0])), coded))
    assert found == planes * 4
