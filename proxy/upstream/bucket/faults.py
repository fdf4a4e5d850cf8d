"""botocore's exceptions to ours: what the bucket answered is passed on, what it did not answer is UpstreamError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
# The proxy's own signature was refused: no business of the client, whose signature was right.
_OWN_CREDENTIALS: Final = frozenset(
    {
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
# What an error's answer tells beside its document.
_HEADERS: Final = frozenset({"allow", "retry-after", "x-amz-bucket-region", "x-amz-delete-marker", "x-amz-version-id"})
# What the bucket says of bytes that are not those that were sent, or that were long in coming.
CHANGED_ON_THE_WAY: Final = frozenset(
    {"BadDigest", "RequestTimeout", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"}
)
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
        if (code in _TRANSIENT and status >= 500) or code in _OWN_CREDENTIALS:
            raise UpstreamError(f"{what}: the bucket answered {code}: {message}") from error
        raise S3Error(
            _BY_STATUS.get(code, code),
            message,
            status=status,
            headers=error_headers(error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})),
            **{k: str(v) for k, v in fields.items() if k.isalnum()},
        ) from error
    except ParamValidationError as error:
        # Found before anything was sent, so it would be found again: not a fault of the bucket.
        raise S3Error("InvalidArgument", f"{what}: {error}") from error
    except (BotoCoreError, HTTPClientError, aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        raise UpstreamError(f"{what}: {type(error).__name__}: {error}") from error


def code_of_status(status: int) -> str:
    """The code of an answer without a document."""
    return _BY_STATUS.get(str(status), "InternalError")


def error_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those headers of an error's answer that a client is to see."""
    return {name.lower(): value for name, value in headers.items() if name.lower() in _HEADERS}


def is_own_fault(code: str) -> bool:
    """Whether the bucket refuses the proxy itself rather than what the client asks."""
    return code in _OWN_CREDENTIALS
