"""One line a request, with nothing that could be used to sign another one."""

from __future__ import annotations

import json
import logging
import re
from typing import Final

from .context import Context

_log = logging.getLogger("s4weights.access")
_SECRETS: Final = re.compile(r"(?i)((?:X-Amz-(?:Signature|Credential|Security-Token)|AWSAccessKeyId|Signature)=)[^&]*")


def mask_query(raw_query: str) -> str:
    """A query without its signature, credential and token."""
    return _SECRETS.sub(r"\1********", raw_query)


def log_access(context: Context, status: int, seconds: float) -> None:
    """Write the line."""
    if not _log.isEnabledFor(logging.INFO):
        return
    query = mask_query(context.raw_query)
    _log.info(
        "%s",
        json.dumps(
            {
                "request_id": context.request_id,
                "remote": context.request.remote,
                "operation": context.operation,
                "method": context.request.method,
                "path": f"{context.raw_path}?{query}" if query else context.raw_path,
                "status": status,
                "seconds": round(seconds, 6),
                "bytes_in": _announced_bytes(context.headers.get("content-length")),
            }
        ),
    )


def _announced_bytes(length: str | None) -> int | None:
    return int(length) if length is not None and length.isascii() and length.isdigit() else None
