"""Log lines as text or JSON, each with the id of the request it belongs to, none with what could sign another request."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

NO_REQUEST: Final = "-"
request_id: Final[ContextVar[str]] = ContextVar("request_id", default=NO_REQUEST)
"""Of the request that this task works for; tasks and threads begun by it inherit it."""

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s"
# Line ends and escapes of terminals: a key may hold them, and must not forge a line.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Their debug logs hold signatures.
_QUIET: Final = ("botocore", "aiobotocore", "boto3", "aioboto3", "urllib3")


def new_request_id() -> str:
    """As S3's: 16 hexadecimal digits in upper case."""
    return secrets.token_hex(8).upper()


def set_up_logging(level: str, log_format: str) -> None:
    """Log to stderr. level: DEBUG, INFO, ... log_format: text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """For people: one line a message, whatever is in it; a traceback below."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        record.request_id = request_id.get()
        return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", super().formatMessage(record))


class JsonFormatter(logging.Formatter):
    """For machines: one object a line. `extra={"fields": {...}}` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "request_id": request_id.get(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)
