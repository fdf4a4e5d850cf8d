"""A client's body, checked while it streams; its last chunk is given out only when every check was right."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiohttp import ClientError, http_exceptions

from s4weights.proxy.auth.sigv4 import UNSIGNED, Verified
from s4weights.proxy.checksums.algorithms import (
    Hasher,
    announced_checksum,
    check_checksum,
    check_md5,
    checksum_headers,
    decode_checksum,
    decode_content_md5,
    encode,
    header_of,
    new_hasher,
)
from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import GATHERED_BYTES

from .aws_chunked import SIGNED, TRAILING, AwsChunkedDecoder

# Below this a hash is quicker than a hop to a thread.
_INLINE_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Expected:
    """What a request announced of its body. length: decoded bytes. checksums: raw values by header.

    trailer: the header that comes behind the body with a checksum. computed: one that is wanted without being announced.
    """

    length: int
    md5: bytes | None = None
    sha256: str | None = None
    checksums: Mapping[str, bytes] = field(default_factory=dict)
    trailer: str | None = None
    computed: str | None = None


class CheckedBody:
    """Yields the decoded body. md5 and checksums (base64, by header) are there once the last chunk is out.

    announced: the headers of those checksums; their values where they came before the body.
    gathered_bytes: of a chunk, about; a consumer that holds memory for the body may set more.

    A consumer that reaches the end knows that the body is right; otherwise it gets S3Error instead of the last chunk.
    """

    def __init__(
        self, source: AsyncIterator[bytes], expected: Expected, decoder: AwsChunkedDecoder | None = None
    ) -> None:
        self.length = expected.length
        self.gathered_bytes = GATHERED_BYTES
        self.md5 = b""
        self.checksums: Mapping[str, str] = {}
        self.announced: Mapping[str, str | None] = {
            **({expected.computed: None} if expected.computed else {}),
            **({expected.trailer: None} if expected.trailer else {}),
            **{name: encode(value) for name, value in expected.checksums.items()},
        }
        self._source = source
        self._expected = expected
        self._decoder = decoder
        self._seen = 0
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._sha256 = hashlib.sha256() if expected.sha256 else None
        self._hashers: dict[str, Hasher] = {name: new_hasher(name) for name in self.announced}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = b""
        hashing: Sequence[asyncio.Future[None]] = ()
        async for chunk in self._gathered():
            for one in hashing:
                await one
            hashing = self._hash(chunk)
            held, chunk = chunk, held
            if chunk:
                yield chunk
        for one in hashing:
            await one
        self._check()
        if held:
            yield held

    async def _gathered(self) -> AsyncIterator[bytes]:
        """Decoded bytes, about gathered_bytes at a time, never more in all than were announced."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self._decoded():
            self._seen += len(piece)
            if self._seen > self._expected.length:
                raise S3Error("InvalidRequest", "The body is longer than was announced.")
            pieces.append(piece)
            size += len(piece)
            if size >= self.gathered_bytes:
                yield _joined(pieces)
                size = 0
        if self._seen != self._expected.length:
            raise S3Error("IncompleteBody")
        if pieces:
            yield _joined(pieces)

    async def _decoded(self) -> AsyncIterator[bytes]:
        try:
            async for raw in self._source:
                if self._decoder is None:
                    yield raw
                else:
                    for piece in self._decoder.feed(raw):
                        yield piece
        except (
            ClientError,
            ConnectionError,
            http_exceptions.HttpProcessingError,
            asyncio.IncompleteReadError,
        ) as error:
            raise S3Error("IncompleteBody") from error
        if self._decoder is not None:
            self._decoder.finish()

    def _hash(self, chunk: bytes) -> Sequence[asyncio.Future[None]]:
        """Off the event loop, MD5 beside the others: it alone takes longer than they do."""
        if len(chunk) < _INLINE_BYTES:
            self._md5.update(chunk)
            self._update_others(chunk)
            return ()
        loop = asyncio.get_running_loop()
        md5 = loop.run_in_executor(None, self._md5.update, chunk)
        if self._sha256 is None and not self._hashers:
            return (md5,)
        return md5, loop.run_in_executor(None, self._update_others, chunk)

    def _update_others(self, chunk: bytes) -> None:
        if self._sha256 is not None:
            self._sha256.update(chunk)
        for hasher in self._hashers.values():
            hasher.update(chunk)

    def _check(self) -> None:
        expected = self._expected
        self.md5 = self._md5.digest()
        if self._sha256 is not None and self._sha256.hexdigest() != expected.sha256:
            raise S3Error(
                "XAmzContentSHA256Mismatch",
                ClientComputedContentSHA256=expected.sha256 or "",
                S3ComputedContentSHA256=self._sha256.hexdigest(),
            )
        if expected.md5 is not None:
            check_md5(expected.md5, self.md5)
        announced = dict(expected.checksums)
        if expected.trailer is not None:
            value = self._decoder.trailers.get(expected.trailer) if self._decoder else None
            if value is None:
                raise S3Error("MalformedTrailerError", f"The trailer {expected.trailer} is missing.", status=400)
            announced[expected.trailer] = decode_checksum(expected.trailer, value)
        undeclared = (
            set(checksum_headers(list(self._decoder.trailers))) - {expected.trailer} if self._decoder else set()
        )
        if undeclared:
            # Nothing was computed for it while the body passed; unchecked it must not count.
            raise S3Error("MalformedTrailerError", f"x-amz-trailer does not name {min(undeclared)}.", status=400)
        for name, wanted in announced.items():
            check_checksum(name, wanted, self._hashers[name].digest())
        self.checksums = {name: encode(hasher.digest()) for name, hasher in self._hashers.items()}


def _joined(pieces: list[bytes]) -> bytes:
    """One chunk, once, for all who read it; pieces is empty afterwards."""
    chunk = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    pieces.clear()
    return chunk


def checked_body(
    headers: Mapping[str, str],
    verified: Verified | None,
    source: AsyncIterator[bytes],
    *,
    computed: str | None = None,
) -> CheckedBody:
    """Read what a request announces and check it before a byte of the body. headers: lower-case names.

    computed: a checksum that is wanted where the request brings none.
    Raises: S3Error MissingContentLength, InvalidDigest, InvalidRequest, InvalidArgument.
    """
    declared = (verified.payload_hash if verified else headers.get("x-amz-content-sha256")) or UNSIGNED
    is_framed = declared.startswith("STREAMING-") or "aws-chunked" in headers.get("content-encoding", "").lower()
    decoder = _decoder(declared, verified) if is_framed else None
    checksums = announced_checksum(headers)
    names = list(checksums)
    trailer = _trailer(headers) if declared in TRAILING else None
    _check_algorithm(headers, names, trailer)
    md5 = headers.get("content-md5")
    expected = Expected(
        length=_length(headers, is_framed=is_framed),
        md5=decode_content_md5(md5) if md5 is not None else None,
        sha256=_payload_sha256(declared),
        checksums=checksums,
        trailer=trailer,
        computed=computed if not names and trailer is None else None,
    )
    return CheckedBody(source, expected, decoder)


def _decoder(declared: str, verified: Verified | None) -> AwsChunkedDecoder:
    if declared.startswith("STREAMING-") and declared not in SIGNED | TRAILING:
        raise S3Error("NotImplemented", f"x-amz-content-sha256: {declared} is not supported.")
    is_signed = declared in SIGNED
    return AwsChunkedDecoder(verified if is_signed else None, has_trailer=declared in TRAILING, is_signed=is_signed)


def _payload_sha256(declared: str) -> str | None:
    if declared == UNSIGNED or declared.startswith("STREAMING-"):
        return None
    if len(declared) != 64 or set(declared) - set("0123456789abcdef"):
        raise S3Error(
            "InvalidArgument",
            "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-... or a valid sha256 value.",
        )
    return declared


def _trailer(headers: Mapping[str, str]) -> str | None:
    names = [name.strip().lower() for name in headers.get("x-amz-trailer", "").split(",") if name.strip()]
    checksums = checksum_headers(names)
    if len(checksums) > 1:
        raise S3Error("InvalidRequest", "Expecting a single x-amz-checksum- trailer.")
    for name in checksums:
        new_hasher(name)
    return checksums[0] if checksums else None


def _check_algorithm(headers: Mapping[str, str], names: list[str], trailer: str | None) -> None:
    algorithm = headers.get("x-amz-sdk-checksum-algorithm")
    if algorithm is None:
        return
    announced = [*names, *([trailer] if trailer else [])]
    if not announced:
        raise S3Error(
            "InvalidRequest",
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers "
            "were found.",
        )
    if announced != [header_of(algorithm)]:
        raise S3Error("InvalidRequest", "Value for x-amz-sdk-checksum-algorithm header is invalid.")


def _length(headers: Mapping[str, str], *, is_framed: bool) -> int:
    name = "x-amz-decoded-content-length" if is_framed else "content-length"
    text = headers.get(name)
    if text is None:
        raise S3Error("MissingContentLength")
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise S3Error("InvalidArgument", f"{name} must be a number of bytes.")
    return int(text)
