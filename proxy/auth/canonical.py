"""What SigV4 signs: the request in its canonical form.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final, TypeAlias
from urllib.parse import quote, unquote_to_bytes

HeaderList: TypeAlias = Sequence[tuple[str, str]]
"""(name, value) as received, duplicates kept."""

ALGORITHM: Final = "AWS4-HMAC-SHA256"


def canonical_path(raw_path: str) -> str:
    """S3 signs the path decoded and encoded once, never normalised."""
    return quote(unquote_to_bytes(raw_path), safe="/-._~")


def canonical_query(raw_query: str, *, without: str | None = None) -> str:
    """Parameters decoded, encoded by SigV4's rule and sorted. without: one that is not signed."""
    pairs = []
    for item in raw_query.split("&"):
        if not item:
            continue
        name, _, value = item.partition("=")
        encoded = _encode(name), _encode(value)
        if encoded[0] != without:
            pairs.append(encoded)
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def canonical_request(
    method: str,
    path: str,
    query: str,
    headers: HeaderList,
    signed_headers: Sequence[str],
    payload_hash: str,
) -> str:
    """Join the parts. path, query: canonical. signed_headers: lower case, as the client listed them."""
    lines = []
    for name in signed_headers:
        values = [" ".join(value.split()) for known, value in headers if known.lower() == name]
        lines.append(f"{name}:{','.join(values)}\n")
    return "\n".join([method, path, query, "".join(lines), ";".join(signed_headers), payload_hash])


def string_to_sign(timestamp: str, scope: str, request: str) -> str:
    """timestamp: as in x-amz-date. scope: date/region/service/aws4_request."""
    # Header values that are not UTF-8 are signed as the bytes they are on the wire.
    digest = hashlib.sha256(request.encode(errors="surrogateescape")).hexdigest()
    return "\n".join([ALGORITHM, timestamp, scope, digest])


def signing_key(secret_key: str, scope: str) -> bytes:
    """The key derived for one day, region and service."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def sign(key: bytes, text: str) -> str:
    """HMAC-SHA256 in hex."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _encode(text: str) -> str:
    # A plus sign is a blank, as for who reads the parameters: with two meanings a signed URL could be changed.
    return quote(unquote_to_bytes(text.replace("+", " ")), safe="-._~")
