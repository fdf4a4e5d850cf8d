"""The aws-chunked framing in all its forms, taken off while it streams.

Source: AWS, Signature calculations for the Authorization header: transferring payload in multiple chunks, and
Including trailing headers.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

from s4weights.proxy.auth.canonical import sign
from s4weights.proxy.auth.sigv4 import Verified
from s4weights.proxy.errors import S3Error

# hex length, ";chunk-signature=", 64 hex digits: under 100 bytes; trailers hold a checksum or a signature.
_MAX_LINE_BYTES: Final = 4 << 10
_MAX_TRAILERS: Final = 32
_EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?[ \t]*")
SIGNED: Final = frozenset({"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"})
TRAILING: Final = frozenset({"STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"})


class AwsChunkedDecoder:
    """Feed framed bytes, get the body's. signer: the request's signature, where chunks are signed too.

    Bytes are given out before the signature of their chunk is checked, so that no chunk has to be held whole: who takes them
    keeps back the last ones until `finish` (CheckedBody).
    """

    def __init__(self, signer: Verified | None, *, has_trailer: bool, is_signed: bool | None = None) -> None:
        """is_signed: whether chunks carry signatures; without a signer they are not checked (nobody signs)."""
        self.trailers: dict[str, str] = {}
        self.is_done = False
        self._signer = signer
        self._is_signed = bool(signer) if is_signed is None else is_signed
        self._previous = signer.signature if signer else ""
        self._has_trailer = has_trailer
        self._data = bytearray()
        self._left: int | None = None  # of the chunk that is being read
        self._signature = ""
        self._digest = hashlib.sha256()  # of that chunk
        self._in_trailer = False
        self._trailer_text = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes. Raises: S3Error."""
        out: list[bytes] = []
        if self._left and not self._data:
            piece = data[: self._left]
            self._take(piece, out)
            data = data[len(piece) :]
        self._data += data
        while not self.is_done and self._step(out):
            pass
        if self.is_done and self._data:
            raise S3Error("InvalidRequest", "Bytes follow the end of the aws-chunked body.")
        return out

    def finish(self) -> None:
        """The request has ended. Raises: S3Error IncompleteBody where the framing has not."""
        if not self.is_done:
            raise S3Error("IncompleteBody", "The aws-chunked body ends before its last chunk.")

    def _step(self, out: list[bytes]) -> bool:
        if self._in_trailer:
            return self._read_trailer()
        if self._left is None:
            return self._read_size()
        return self._read_chunk(out)

    def _read_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        match = _CHUNK.fullmatch(line)
        if match is None or bool(match[2]) != self._is_signed:
            raise S3Error("InvalidRequest", "An aws-chunked chunk header is malformed.")
        self._left = int(match[1], 16)
        self._signature = (match[2] or b"").decode()
        self._digest = hashlib.sha256()
        if self._left == 0:
            self._check_chunk()
            self._in_trailer = True
        return True

    def _read_chunk(self, out: list[bytes]) -> bool:
        assert self._left is not None
        piece = bytes(self._data[: self._left])
        if piece:
            del self._data[: len(piece)]
            self._take(piece, out)
        return self._left == 0 and self._end_chunk()

    def _take(self, piece: bytes, out: list[bytes]) -> None:
        assert self._left is not None
        self._left -= len(piece)
        if self._signer is not None:
            self._digest.update(piece)
        out.append(piece)

    def _end_chunk(self) -> bool:
        if len(self._data) < 2:
            return False
        if self._data[:2] != b"\r\n":
            raise S3Error("InvalidRequest", "An aws-chunked chunk is longer than its header says.")
        del self._data[:2]
        self._check_chunk()
        self._left = None
        return True

    def _read_trailer(self) -> bool:
        line = self._line()
        if line is None:
            return False
        if line:
            self._add_trailer(line)
            return True
        self._check_trailer()
        self.is_done = True
        return True

    def _add_trailer(self, line: bytes) -> None:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not self._has_trailer or len(self.trailers) >= _MAX_TRAILERS:
            raise S3Error(
                "MalformedTrailerError",
                "The request contained trailing data that was not well-formed.",
                status=400,
            )
        name, value = name.strip().lower(), value.strip()
        self.trailers[name] = value
        if name != "x-amz-trailer-signature":
            self._trailer_text += f"{name}:{value}\n".encode("latin-1")

    def _check_chunk(self) -> None:
        if self._signer is None:
            return
        text = "\n".join([_EMPTY_SHA256, self._digest.hexdigest()])
        self._check("AWS4-HMAC-SHA256-PAYLOAD", text, self._signature)
        self._previous = self._signature

    def _check_trailer(self) -> None:
        signature = self.trailers.pop("x-amz-trailer-signature", "")
        if self._signer is not None and self._has_trailer:
            self._check("AWS4-HMAC-SHA256-TRAILER", hashlib.sha256(self._trailer_text).hexdigest(), signature)

    def _check(self, algorithm: str, text: str, signature: str) -> None:
        assert self._signer is not None
        signed = "\n".join([algorithm, self._signer.timestamp, self._signer.scope, self._previous, text])
        if not hmac.compare_digest(sign(self._signer.signing_key, signed).encode(), signature.encode()):
            raise S3Error("SignatureDoesNotMatch")

    def _line(self) -> bytes | None:
        end = self._data.find(b"\r\n", 0, _MAX_LINE_BYTES + 2)
        if end < 0:
            if len(self._data) > _MAX_LINE_BYTES:
                raise S3Error("InvalidRequest", f"An aws-chunked line is longer than {_MAX_LINE_BYTES} bytes.")
            return None
        line = bytes(self._data[:end])
        del self._data[: end + 2]
        return line
