"""aws-chunked on the way out: a body whose checksum is known only behind it. Source: AWS, Including trailing headers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

from s4weights.proxy.checksums.algorithms import encode, new_hasher
from s4weights.proxy.upstream.protocol import SentChecksum

STREAMING: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
# All chunks but the last are of this size, so that the framed length is known beforehand.
_CHUNK_BYTES: Final = 1 << 20


def trailer_headers(header: str, length: int, headers: Mapping[str, str]) -> dict[str, str]:
    """What announces the framing. headers: the body's own."""
    encodings = ["aws-chunked", *([headers["content-encoding"]] if headers.get("content-encoding") else [])]
    return {
        "content-encoding": ",".join(encodings),
        "x-amz-decoded-content-length": str(length),
        "x-amz-trailer": header,
    }


def framed_bytes(length: int, header: str) -> int:
    """Length of a framed body of length bytes, more than none."""
    whole, rest = divmod(length, _CHUNK_BYTES)
    size = whole * (len(_head(_CHUNK_BYTES)) + _CHUNK_BYTES + 2)
    if rest:
        size += len(_head(rest)) + rest + 2
    return size + len(_end(header, encode(new_hasher(header).digest())))


async def framed(chunks: AsyncIterator[bytes], length: int, checksum: SentChecksum) -> AsyncIterator[bytes]:
    """Frame a body of length bytes. Raises: what the body raises."""
    pending = bytearray()
    async for chunk in chunks:
        pending += chunk
        while len(pending) >= _CHUNK_BYTES:
            piece = bytes(pending[:_CHUNK_BYTES])
            del pending[:_CHUNK_BYTES]
            yield b"".join((_head(_CHUNK_BYTES), piece, b"\r\n"))
    if pending:
        yield b"".join((_head(len(pending)), pending, b"\r\n"))
    yield _end(checksum.header, checksum.value())


def _head(size: int) -> bytes:
    return b"%x\r\n" % size


def _end(header: str, value: str) -> bytes:
    return f"0\r\n{header}:{value}\r\n\r\n".encode()
