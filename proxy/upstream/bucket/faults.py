"""botocore's exceptions to ours: what the bucket answered is passed on, what it did not answer is UpstreamError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, ParamValidationError

from s4weights.proxy.errors import S3Error, UpstreamError

# A HEAD has no document: botocore makes the code of the status.
_BY_STATUS: Final = {
    "304": "NotModified",
    "400": "InvalidRequest",
    "403": "AccessDenied",
    "404": "NoSuchKey",
    "405": "MethodNotAllowed",
    "412": "PreconditionFailed",
    "416": "InvalidRange",
}
_TRANSIENT: Final = frozenset({"InternalError", "SlowDown", "ServiceUnavailable", "503", "500", "RequestTimeout"})


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise S3Error or UpstreamError instead of the client's own exceptions. what: for messages."""
    try:
        yield
    except ClientError as error:
        fields = dict(error.response.get("Error", {}))
        code = str(fields.pop("Code", "InternalError"))
        message = str(fields.pop("Message", "") or code)
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500))
        if code in _TRANSIENT and status >= 500:
            raise UpstreamError(f"{what}: the bucket answered {code}: {message}") from error
        raise S3Error(
            _BY_STATUS.get(code, code),
            message,
            status=status,
            **{k: str(v) for k, v in fields.items() if k.isalnum()},
        ) from error
    except ParamValidationError as error:
        # Found before anything was sent, so it would be found again: not a fault of the bucket.
        raise S3Error("InvalidArgument", f"{what}: {error}") from error
    except (BotoCoreError, HTTPClientError, aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        raise UpstreamError(f"{what}: {type(error).__name__}: {error}") from error
