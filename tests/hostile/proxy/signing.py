"""SigV4 once more, on its own: an attacker signs with whatever they like, and in the wrong order."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from tests.proxy.handlers.conftest import ACCESS_KEY, SECRET_KEY, Service

EMPTY = hashlib.sha256(b"").hexdigest()
SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@dataclass(frozen=True)
class Signer:
    """age_s: how long ago the request was signed."""

    host: str
    secret: str = SECRET_KEY
    access_key: str = ACCESS_KEY
    token: str | None = None
    age_s: float = 0.0

    @property
    def timestamp(self) -> str:
        return (datetime.now(UTC) - timedelta(seconds=self.age_s)).strftime("%Y%m%dT%H%M%SZ")

    def key(self, scope: str) -> bytes:
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key

    def sign(self, scope: str, *lines: str) -> str:
        return hmac.new(self.key(scope), "\n".join(lines).encode(), hashlib.sha256).hexdigest()

    def headers(self, method: str, path: str, extra: Mapping[str, str], payload: str = "UNSIGNED-PAYLOAD") -> Signed:
        timestamp = self.timestamp
        scope = f"{timestamp[:8]}/us-east-1/s3/aws4_request"
        sent = {"host": self.host, "x-amz-content-sha256": payload, "x-amz-date": timestamp, **extra}
        if self.token is not None:
            sent["x-amz-security-token"] = self.token
        names = sorted(sent)
        raw_path, _, query = path.partition("?")
        pairs = [item.partition("=")[::2] for item in query.split("&") if item]
        canonical = "&".join(f"{name}={value}" for name, value in sorted(pairs))
        lines = [method, raw_path, canonical, *(f"{name}:{sent[name]}" for name in names), "", ";".join(names), payload]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        signature = self.sign(scope, "AWS4-HMAC-SHA256", timestamp, scope, digest)
        sent["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
        )
        return Signed(sent, signature, scope, timestamp, self)

    def presigned(self, method: str, path: str, expires_s: int = 60) -> str:
        timestamp = self.timestamp
        scope = f"{timestamp[:8]}/us-east-1/s3/aws4_request"
        query = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{self.access_key}/{scope}",
            "X-Amz-Date": timestamp,
            "X-Amz-Expires": str(expires_s),
            "X-Amz-SignedHeaders": "host",
        }
        if self.token is not None:
            query["X-Amz-Security-Token"] = self.token
        canonical = "&".join(f"{name}={quote(value, safe='-._~')}" for name, value in sorted(query.items()))
        lines = [method, path, canonical, f"host:{self.host}", "", "host", "UNSIGNED-PAYLOAD"]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        signature = self.sign(scope, "AWS4-HMAC-SHA256", timestamp, scope, digest)
        return f"{path}?{canonical}&X-Amz-Signature={signature}"


@dataclass(frozen=True)
class Signed:
    """The headers of a request, and what its chunks go on from."""

    headers: dict[str, str]
    signature: str
    scope: str
    timestamp: str
    signer: Signer

    def chunks(self, pieces: Sequence[bytes], trailer: str | None = None) -> list[bytes]:
        """Each piece framed and signed, the empty last one too; with a trailer, that and its signature in the last."""
        previous, framed = self.signature, []
        for piece in [*pieces, b""]:
            digest = hashlib.sha256(piece).hexdigest()
            previous = self._sign("AWS4-HMAC-SHA256-PAYLOAD", previous, EMPTY, digest)
            framed.append(
                f"{len(piece):x};chunk-signature={previous}\r\n".encode() + (piece + b"\r\n" if piece else b"")
            )
        if trailer is not None:
            digest = hashlib.sha256(f"{trailer}\n".encode()).hexdigest()
            signature = self._sign("AWS4-HMAC-SHA256-TRAILER", previous, digest)
            framed[-1] += f"{trailer}\r\nx-amz-trailer-signature:{signature}\r\n".encode()
        framed[-1] += b"\r\n"
        return framed

    def _sign(self, algorithm: str, previous: str, *digests: str) -> str:
        return self.signer.sign(self.scope, algorithm, self.timestamp, self.scope, previous, *digests)


def code_of(body: bytes) -> str | None:
    found = re.search(rb"<Code>(\w+)</Code>", body)
    return found[1].decode() if found else None


async def refused(
    service: Service, method: str, path: str, headers: Mapping[str, str], body: bytes = b"", *codes: str
) -> None:
    """Refused by one of the codes, by default SignatureDoesNotMatch, and nothing is stored."""
    status, _, answer = await service.send(method, path, {"content-length": str(len(body)), **headers}, body)
    assert status in (400, 403, 501), answer
    assert code_of(answer) in (codes or ("SignatureDoesNotMatch",))
    assert service.stored() == []


async def sent(service: Service, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> int:
    """The status."""
    return (await service.send(method, path, {"content-length": str(len(body)), **headers}, body))[0]
