"""A body framed on the way out is taken off its framing by our own decoder, and is as long as was announced."""

from __future__ import annotations

import random
import zlib

import pytest

from s4weights.proxy.checksums.algorithms import encode
from s4weights.proxy.http.aws_chunked import AwsChunkedDecoder
from s4weights.proxy.upstream.bucket.framing import framed, framed_bytes, trailer_headers
from s4weights.proxy.upstream.protocol import SentChecksum

MIB = 1 << 20
CRC = "x-amz-checksum-crc32"


@pytest.mark.parametrize("size", [1, 1000, MIB - 1, MIB, MIB + 1, 3 * MIB, 3 * MIB + 17])
@pytest.mark.parametrize("piece", [999, MIB, 5 * MIB])
async def test_there_and_back(size, piece):
    data = random.Random(size).randbytes(size)
    seen: list[bytes] = []

    async def pieces():
        for start in range(0, size, piece):
            seen.append(data[start : start + piece])
            yield seen[-1]

    value = encode(zlib.crc32(data).to_bytes(4, "big"))
    checksum = SentChecksum(CRC, lambda: encode(zlib.crc32(b"".join(seen)).to_bytes(4, "big")))
    wire = b"".join([chunk async for chunk in framed(pieces(), size, checksum)])
    assert len(wire) == framed_bytes(size, CRC)
    decoder = AwsChunkedDecoder(None, has_trailer=True)
    assert b"".join(decoder.feed(wire)) == data
    decoder.finish()
    assert decoder.trailers == {CRC: value}


def test_the_bodys_own_encoding_stays():
    assert trailer_headers(CRC, 7, {"content-encoding": "gzip"}) == {
        "content-encoding": "aws-chunked,gzip",
        "x-amz-decoded-content-length": "7",
        "x-amz-trailer": CRC,
    }
    assert trailer_headers(CRC, 7, {})["content-encoding"] == "aws-chunked"
