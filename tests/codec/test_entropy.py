"""What a reader demands of raw, constant and zstd planes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zstandard

from s4weights.codec.entropy import decode_plane, zstd
from s4weights.codec.errors import FormatError, LimitExceeded
from s4weights.codec.types import Mode

NOISE = np.random.default_rng(0).bytes(20_000)
TEXT = b"never lose a checkpoint, never show a wrong byte; " * 40


@pytest.mark.parametrize("mode", [Mode.RAW, Mode.CONSTANT])
@pytest.mark.parametrize("stored", [b"", b"ab"])
def test_a_stored_length_that_cannot_be_is_named(mode, stored):
    with pytest.raises(FormatError, match="found"):
        decode_plane(mode, stored, 5)


FRAME = zstd.encode(TEXT, 3)
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


@pytest.mark.parametrize("effort", [1, 3, 12])
def test_zstd_planes_come_back(effort):
    assert zstd.decode(zstd.encode(TEXT, effort), len(TEXT)) == TEXT


def test_a_zstd_plane_never_gives_more_than_was_asked_for():
    bomb = zstd.encode(bytes(1 << 24), 3)
    with pytest.raises(FormatError, match="did not decompress full frame"):
        decode_plane(Mode.ZSTD, bomb, 1000)


def test_threads_do_not_share_a_compressor():
    planes = [bytes([k]) * 3000 + TEXT for k in range(16)]
    with ThreadPoolExecutor(8) as pool:
        coded = list(pool.map(lambda plane: zstd.encode(plane, 3), planes * 4))
        found = list(pool.map(lambda one: zstd.decode(one, len(planes[0])), coded))
    assert found == planes * 4
