"""One line a request, with nothing that could be used to sign another one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_plus

from .context import Context

_log = logging.getLogger("s4weights.access")
# Parameters that could sign another request, by their decoded names in lower case, and those that are a header's: keys, tokens.
_SECRETS: Final = frozenset({"awsaccesskeyid", "signature"})
_HEADERS: Final = "x-amz-"
_SHOWN: Final = frozenset(
    {"x-amz-algorithm", "x-amz-content-sha256", "x-amz-date", "x-amz-expires", "x-amz-signedheaders"}
)


def mask_query(raw_query: str) -> str:
    """A query without its signature, credential, token and keys, however their names are spelt."""
    return "&".join(_masked(item) for item in raw_query.split("&"))


def _masked(item: str) -> str:
    name, equals, _ = item.partition("=")
    known = unquote_plus(name).strip().lower()
    is_secret = known in _SECRETS or (known.startswith(_HEADERS) and known not in _SHOWN)
    return f"{name}=********" if equals and is_secret else item


def log_access(context: Context, status: int, seconds: float) -> None:
    """Write the line."""
    if not _log.isEnabledFor(logging.INFO):
        return
    query = mask_query(context.raw_query)
    path = f"{context.raw_path}?{query}" if query else context.raw_path
    fields = {
        "remote": context.request.remote,
        "operation": context.operation,
        "method": context.request.method,
        "bucket": context.bucket,
        "path": path,
        "status": status,
        "seconds": round(seconds, 6),
        "bytes_in": announced_bytes(context.headers),
        "bytes_out": context.request.writer.output_size,
    }
    if context.upstream_request_id:
        fields["upstream_request_id"] = context.upstream_request_id
    _log.info(
        "%s %s %s %s %d %.3f s",
        context.request.remote,
        context.operation,
        context.request.method,
        path,
        status,
        seconds,
        extra={"fields": fields},
    )


def announced_bytes(headers: Mapping[str, str]) -> int | None:
    """What a request says of the size of its body."""
    length = headers.get("content-length")
    return int(length) if length is not None and length.isascii() and length.isdigit() else None
