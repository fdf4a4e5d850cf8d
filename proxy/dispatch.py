"""From a request to its handler, and from every error to S3's document."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from s4weights.codec.errors import S4WeightsError

from .access_log import announced_bytes, log_access
from .auth.credentials import CredentialStore
from .auth.hoisted import with_hoisted
from .auth.sigv4 import Verified, is_presigned, verify
from .context import Context, read_headers
from .errors import S3Error, UpstreamError
from .handlers.attributes import COPIES
from .handlers.copy_object import parse_source
from .handlers.cross_origin import CrossOrigin, preflight
from .handlers.post_object import is_form
from .http.address import parse_address
from .http.query import read_query
from .http.server import check_head
from .http.xml import error_document
from .logs import request_id
from .metrics import Metrics
from .objects.objects import Objects
from .routes import find_handler
from .tracing import Attributes, RequestSpan
from .upstream.payer import REQUEST_PAYER, request_payer
from .upstream.protocol import Forwarded, path_of

_log = logging.getLogger(__name__)
_OWNER: Final = "x-amz-expected-bucket-owner"
_SOURCE_OWNER: Final = "x-amz-source-expected-bucket-owner"
# Those of the calls we answer that do not carry their headers to the bucket.
_READS: Final = frozenset(
    {
        "AbortMultipartUpload",
        "CompleteMultipartUpload",
        "DeleteObjects",
        "GetObject",
        "GetObjectAttributes",
        "HeadObject",
        "ListMultipartUploads",
        "ListObjects",
        "ListObjectsV2",
        "ListParts",
        "UploadPart",
        "UploadPartCopy",
    }
)


class Dispatcher:
    """The one handler of the S3 port: address, signature, route, errors."""

    def __init__(
        self, objects: Objects, credentials: CredentialStore, metrics: Metrics, *, domains: Sequence[str] = ()
    ) -> None:
        """credentials: where there are none, nobody needs to sign (loopback only, see app.py)."""
        self._objects = objects
        self._credentials = credentials
        self._metrics = metrics
        self._domains = domains
        self._cross_origin = CrossOrigin()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        context = self._context(request)
        request_id.set(context.request_id)
        span = RequestSpan(context.headers)
        started_s = time.monotonic()
        self._metrics.request_started()
        status = 499  # the client, or the process, went away before there was an answer
        try:
            response = await self._answer(context)
            status = response.status
        finally:
            seconds = time.monotonic() - started_s
            self._metrics.request_ended(context.operation, status, seconds)
            log_access(context, status, seconds)
            span.end(context.operation, status, _span_attributes(context))
        return response

    def _context(self, request: web.BaseRequest) -> Context:
        raw_path, _, raw_query = request.raw_path.partition("?")
        return Context(
            request,
            self._objects,
            "",
            "",
            raw_path or "/",
            raw_query,
            read_headers(request),
            read_query(raw_query),
            self._credentials,
        )

    async def _answer(self, context: Context) -> web.StreamResponse:
        try:
            return await self._handle(context)
        except S3Error as error:
            return self._refuse(context, error)
        except UpstreamError as error:
            _log.warning("%s: %s", context.operation, error)
            return self._refuse(context, _unavailable(error))
        except S4WeightsError as error:
            _log.error("%s: %s", context.operation, error)
            return self._refuse(context, S3Error("InternalError", str(error)))
        except Exception as error:
            if _is_left_alone(context.request, error):
                # aiohttp closes what is left of the connection.
                raise ConnectionResetError(str(error)) from error
            _log.exception("%s failed", context.operation)
            return self._refuse(context, S3Error("InternalError"))

    async def _handle(self, context: Context) -> web.StreamResponse:
        check_head(context.request)
        if is_presigned(context.query):
            context.headers = with_hoisted(context.headers, context.query)
        request_payer.set(context.headers.get(REQUEST_PAYER, ""))
        if not context.raw_path.startswith("/"):
            raise S3Error("InvalidURI")
        address = parse_address(context.raw_path, context.headers.get("host", ""), self._domains)
        context.bucket, context.key = address.bucket, address.key
        # What follows, forwarded calls too, sees path style only; the signature was made over the path on the wire.
        context.path = f"/{address.bucket}{context.raw_path}" if address.in_host else context.raw_path
        if context.request.method == "OPTIONS":
            context.operation = "OptionsObject"
            return await preflight(context)
        if "origin" in context.headers:
            context.cross_origin = await self._cross_origin.headers(context)
        if self._credentials and not is_form(context):
            context.verified = await self._credentials.checked(lambda: self._verify(context))
        context.operation, handler = find_handler(context)
        context.grant.check(context.request.method, context.operation, context.bucket, context.key, context.query)
        if context.operation in _READS and _OWNER in context.headers:
            await self._check_owner(context.bucket, context.headers[_OWNER])
        if context.operation in COPIES and _SOURCE_OWNER in context.headers:
            source, _, _ = parse_source(context, context.headers["x-amz-copy-source"])
            await self._check_owner(source, context.headers[_SOURCE_OWNER])
        return await handler(context)

    def _verify(self, context: Context) -> Verified:
        return verify(
            context.request.method,
            context.raw_path,
            context.raw_query,
            list(context.request.headers.items()),
            self._credentials,
            datetime.now(UTC),
        )

    async def _check_owner(self, bucket: str, owner: str) -> None:
        """Calls that we answer out of others: the bucket compares its owner beforehand."""
        asked = Forwarded("HEAD", path_of(bucket), headers={_OWNER: owner})
        try:
            answer = await self._objects.store.upstream.forward(asked)
        except S3Error as error:
            if error.code != "NotImplemented":
                raise
            return  # a directory has no owner
        answer.release()
        if answer.status == 404:
            return  # the call itself says so
        if 400 <= answer.status < 500:
            raise S3Error("AccessDenied" if answer.status == 403 else "InvalidRequest")
        if answer.status != 200:
            raise UpstreamError(f"HeadBucket {bucket}: expected 200, found {answer.status}")

    def _refuse(self, context: Context, error: S3Error) -> web.StreamResponse:
        request = context.request
        if context.has_begun:
            # Part of a 200 is out: the only honest end is a broken connection.
            _log.error("%s broken off: %s", context.operation, error)
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("response broken off")
        body = error_document(error, resource=context.raw_path, request_id=context.request_id, host_id=context.host_id)
        response = context.empty(error.status, {"Content-Type": "application/xml", **error.headers}, body)
        if not request.content.is_eof():
            response.force_close()
        return response


def _is_left_alone(request: web.BaseRequest, error: Exception) -> bool:
    """Whether the client is gone: aiohttp says so by several errors."""
    has_ended = request.transport is None or request.transport.is_closing()
    return isinstance(error, ConnectionResetError) or (isinstance(error, ConnectionError) and has_ended)


def _span_attributes(context: Context) -> Attributes:
    return {
        "aws.request_id": context.request_id,
        "aws.s3.bucket": context.bucket,
        "http.request.method": context.request.method,
        "http.request.body.size": announced_bytes(context.headers) or 0,
        "http.response.size": context.request.writer.output_size,
    }


def _unavailable(error: UpstreamError) -> S3Error:
    """What a client is told: to try again, and when, where the bucket said so."""
    headers = {} if error.retry_after_s is None else {"retry-after": f"{error.retry_after_s:.0f}"}
    if error.code == "SlowDown":
        return S3Error("SlowDown", headers=headers)
    return S3Error("ServiceUnavailable", "The bucket cannot be reached. Please try again.", headers=headers)
