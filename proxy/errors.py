"""Errors of the proxy; the whole tree is drawn in `codec/errors.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from s4weights.codec.errors import S4WeightsError

# S3's code -> (HTTP status, message).
# Source: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
S3_CODES: Final[Mapping[str, tuple[int, str]]] = {
    "AccessDenied": (403, "Access Denied"),
    "AuthorizationHeaderMalformed": (400, "The authorization header you provided is invalid."),
    "AuthorizationQueryParametersError": (400, "The authorization query parameters are invalid."),
    "BadDigest": (
        400,
        "The Content-MD5 or checksum value you specified did not match what the server received.",
    ),
    "BucketAlreadyExists": (409, "The requested bucket name is not available."),
    "BucketAlreadyOwnedByYou": (409, "The bucket that you tried to create already exists, and you own it."),
    "BucketNotEmpty": (409, "The bucket that you tried to delete is not empty."),
    "EntityTooLarge": (400, "Your proposed upload exceeds the maximum allowed object size."),
    "EntityTooSmall": (400, "Your proposed upload is smaller than the minimum allowed object size."),
    "IncompleteBody": (
        400,
        "You did not provide the number of bytes specified by the Content-Length HTTP header.",
    ),
    "InternalError": (500, "We encountered an internal error. Please try again."),
    "InvalidAccessKeyId": (403, "The AWS access key ID that you provided does not exist in our records."),
    "InvalidArgument": (400, "Invalid Argument"),
    "InvalidBucketName": (400, "The specified bucket is not valid."),
    "InvalidDigest": (400, "The Content-MD5 or checksum value that you specified is not valid."),
    "InvalidPart": (400, "One or more of the specified parts could not be found."),
    "InvalidPartOrder": (400, "The list of parts was not in ascending order."),
    "InvalidRange": (416, "The requested range is not satisfiable."),
    "InvalidRequest": (400, "Invalid Request"),
    "InvalidURI": (400, "The specified URI couldn't be parsed."),
    "KeyTooLongError": (400, "Your key is too long."),
    "MalformedXML": (
        400,
        "The XML that you provided was not well formed or did not validate against our schema.",
    ),
    "MaxMessageLengthExceeded": (400, "Your request was too large."),
    "MetadataTooLarge": (400, "Your metadata headers exceed the maximum allowed metadata size."),
    "MethodNotAllowed": (405, "The specified method is not allowed against this resource."),
    "MissingContentLength": (411, "You must provide the Content-Length HTTP header."),
    "NoSuchBucket": (404, "The specified bucket does not exist."),
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchUpload": (404, "The specified multipart upload does not exist."),
    "NoSuchVersion": (404, "The specified version does not exist."),
    "NotImplemented": (
        501,
        "A header or query that you provided requests functionality that is not implemented.",
    ),
    "PreconditionFailed": (412, "At least one of the preconditions that you specified did not hold."),
    "RequestTimeout": (
        400,
        "Your socket connection to the server was not read from or written to within the timeout period.",
    ),
    "RequestTimeTooSkewed": (
        403,
        "The difference between the request time and the server's time is too large.",
    ),
    "SignatureDoesNotMatch": (
        403,
        "The request signature that we calculated does not match the signature you provided.",
    ),
    "ServiceUnavailable": (503, "Service is unable to handle request."),
    "SlowDown": (503, "Please reduce your request rate."),
    "XAmzContentSHA256Mismatch": (
        400,
        "The provided x-amz-content-sha256 header does not match what was computed.",
    ),
}


class ProxyError(S4WeightsError):
    """Base of the proxy's own errors."""


class S3Error(ProxyError):
    """Answered to the client as S3's XML error document.

    code: a name of S3_CODES, or any other with an explicit status.
    fields: further elements of the document, such as Key or UploadId. headers: of the answer, lower case.
    """

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: str,
    ) -> None:
        known_status, known_message = S3_CODES.get(code, (500, code))
        self.code = code
        self.status = known_status if status is None else status
        self.message = known_message if message is None else message
        self.fields = fields
        self.headers = headers or {}
        self.after_fault = False
        """Whether an earlier try of the same call was not answered, and may have been carried out."""
        super().__init__(f"{code}: {self.message}")


class NotEntitled(ProxyError):
    """The product may not run here: no other try and no restart changes that."""


class PlatformSilent(ProxyError):
    """What AWS answers on the machine itself (instance or task metadata) did not answer as it should."""


class EntitlementUnknown(ProxyError):
    """Whether the product may run here could not be found out, so it does not.

    may_pass: whether the next try may go well.
    """

    def __init__(self, message: str, *, may_pass: bool = True) -> None:
        self.may_pass = may_pass
        super().__init__(message)


class UpstreamError(ProxyError):
    """The bucket could not be reached, or answered what cannot be passed on.

    code: the bucket's own, where it gave one. retry_after_s: as it asked. may_pass: whether the next try may go well.
    """

    def __init__(
        self, message: str, *, code: str = "", retry_after_s: float | None = None, may_pass: bool = True
    ) -> None:
        self.code = code
        self.retry_after_s = retry_after_s
        self.may_pass = may_pass
        self.was_repeated = False
        """Whether it was tried as often as makes sense."""
        super().__init__(message)
