"""botocore's exceptions to ours: what the bucket answered is passed on, what it did not answer is UpstreamError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import aiohttp
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, ParamValidationError
from botocore.parsers import ResponseParserError

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
CHANGED_ON_THE_WAY: Final = frozenset({"BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"})
# Of answers below 500: S3 saw too little of the request in time; other servers' word for SlowDown.
_TRANSIENT: Final = frozenset({"RequestTimeout", "TooManyRequests", "429"})
# Those credentials may be newer at the next try.
_REFRESHED: Final = frozenset({"ExpiredToken", "TokenRefreshRequired"})
_NOT_IMPLEMENTED: Final = 501


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
        headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        fault = upstream_fault(what, status, code, message, headers)
        if fault is not None:
            raise fault from error
        raise S3Error(
            _BY_STATUS.get(code, code),
            message,
            status=status,
            headers=error_headers(headers),
            **{k: str(v) for k, v in fields.items() if k.isalnum()},
        ) from error
    except ParamValidationError as error:
        # Found before anything was sent, so it would be found again: not a fault of the bucket.
        raise S3Error("InvalidArgument", f"{what}: {error}") from error
    except (
        BotoCoreError,
        HTTPClientError,
        ResponseParserError,
        aiohttp.ClientError,
        TimeoutError,
        ConnectionError,
    ) as error:
        raise UpstreamError(f"{what}: {type(error).__name__}: {str(error) or 'no answer in time'}") from error


def code_of_status(status: int) -> str:
    """The code of an answer without a document."""
    return _BY_STATUS.get(str(status), "InternalError")


def upstream_fault(what: str, status: int, code: str, message: str, headers: Mapping[str, str]) -> UpstreamError | None:
    """The fault that an answer stands for; None: it is an answer for the client."""
    is_own = code in _OWN_CREDENTIALS
    if (status < 500 or status == _NOT_IMPLEMENTED) and code not in _TRANSIENT and not is_own:
        return None
    return UpstreamError(
        f"{what}: the bucket answered {status} {code}: {message}",
        code="" if is_own else code,
        retry_after_s=_retry_after_s(headers),
        may_pass=not is_own or code in _REFRESHED,
    )


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds alone: S3 and its like send no dates there."""
    value = {name.lower(): value for name, value in headers.items()}.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdigit() and len(value) < 6 else None


def error_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those headers of an error's answer that a client is to see."""
    return {name.lower(): value for name, value in headers.items() if name.lower() in _HEADERS}
