"""BucketUpstream: the protocol on aioboto3; bodies that cannot be sent twice go by RawClient."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

import aioboto3
from aiobotocore.config import AioConfig

from s4weights.codec.errors import ConfigError
from s4weights.proxy.checksums.algorithms import ELEMENTS, elements
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.carried import copied_tags, inherited
from s4weights.proxy.upstream.payer import say_who_pays
from s4weights.proxy.upstream.protocol import (
    Body,
    Bucket,
    ByteRange,
    Conditions,
    Forwarded,
    Headers,
    Listing,
    ObjectBody,
    ObjectInfo,
    Part,
    SentChecksum,
    Stored,
    Upload,
    version_query,
)

from .answers import read_answer
from .body import no_body
from .calls import Calls, Patience
from .circuit import Circuit
from .copying import copy_in_parts, read_tags
from .endpoints import RegionalEndpoints
from .page import list_page, list_uploads
from .parameters import check_sendable, condition_headers, condition_parameters, range_header, version
from .raw import RawClient
from .shapes import Shapes, answer_headers, located_in, write_headers
from .timestamps import quick_session

CONNECTIONS: Final = 64
_CONNECT_S: Final = 10.0
# A readiness probe does not wait as long as a call.
_CHECK_S: Final = 5.0
# S3 copies up to this in one call.
_MAX_COPY_BYTES: Final = 5 << 30


class BucketUpstream:
    """region: of Amazon S3; endpoint: of any other server, spoken to in path style."""

    def __init__(
        self, *, region: str | None = None, endpoint: str | None = None, patience: Patience | None = None
    ) -> None:
        self._calls = Calls(Circuit(), patience or Patience())
        self.name = f"s3 {endpoint or region}"
        self._region = region
        self._endpoint = endpoint
        self._stack = contextlib.AsyncExitStack()
        self._client: Any = None
        self._patient_client: Any = None
        self._raw: RawClient
        self._shapes: Shapes

    async def start(self) -> None:
        """See Upstream."""
        botocore_session = quick_session()
        session = aioboto3.Session(botocore_session=botocore_session)
        credentials = await session.get_credentials()
        if credentials is None:
            raise ConfigError(
                f"upstream {self.name}: found no AWS credentials in the environment, profile or instance role"
            )
        region = self._region or session.region_name or "us-east-1"
        config = AioConfig(
            region_name=region,
            connect_timeout=min(_CONNECT_S, self._calls.patience.silence_s),
            read_timeout=self._calls.patience.silence_s,
            max_pool_connections=CONNECTIONS,
            # Calls are repeated here (calls.py), where it is known that one was, and what the bucket asked for.
            retries={"mode": "standard", "total_max_attempts": 1},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            # Users point AWS_ENDPOINT_URL at this proxy: its own calls must not come back to it.
            ignore_configured_endpoint_urls=True,
            s3={"addressing_style": "path" if self._endpoint else "auto", "payload_signing_enabled": False},
        )
        # Two, because a client has one bound for silence: most calls are answered at once, some are work for the bucket.
        patient = config.merge(AioConfig(read_timeout=self._calls.patience.long_silence_s))
        self._client, self._patient_client = [
            await self._stack.enter_async_context(
                session.client("s3", endpoint_url=self._endpoint, region_name=region, config=one)
            )
            for one in (config, patient)
        ]
        for client in (self._client, self._patient_client):
            client.meta.events.register("before-sign.s3", say_who_pays)
        self._shapes = Shapes(self._client.meta.service_model)
        found = RegionalEndpoints(botocore_session).of
        endpoint, regional = (self._endpoint, None) if self._endpoint else (found(region), found)
        self._raw = RawClient(self._calls, credentials, region, endpoint, CONNECTIONS, regional=regional)
        self._stack.push_async_callback(self._raw.close)

    async def close(self) -> None:
        """See Upstream."""
        await self._stack.aclose()

    async def check(self) -> None:
        """See Upstream."""
        fault = self._calls.circuit.fault()
        if fault:
            raise UpstreamError(f"{self.name}: {fault}")
        try:
            async with asyncio.timeout(_CHECK_S):
                await self._calls.once("ListBuckets", self._client.list_buckets)
        except S3Error:
            pass  # an answer, whatever it says
        except TimeoutError as error:
            raise UpstreamError(f"{self.name}: expected an answer within {_CHECK_S:g} s, found none") from error

    # Buckets

    async def list_buckets(self) -> Sequence[Bucket]:
        """See Upstream."""
        answer = await self._calls.make("ListBuckets", self._client.list_buckets)
        return [Bucket(row["Name"], row["CreationDate"]) for row in answer.get("Buckets", [])]

    async def create_bucket(self, bucket: str, headers: Headers | None = None, document: bytes = b"") -> Headers:
        """See Upstream."""
        region = self._client.meta.region_name
        if not document and region != "us-east-1":
            document = located_in(region)
        return await self._send(bucket, "", "", headers or {}, document, len(document))

    async def delete_bucket(self, bucket: str) -> None:
        """See Upstream."""
        await self._calls.make(f"DeleteBucket {bucket}", lambda: self._client.delete_bucket(Bucket=bucket))

    async def head_bucket(self, bucket: str) -> None:
        """See Upstream."""
        try:
            await self._calls.make(f"HeadBucket {bucket}", lambda: self._client.head_bucket(Bucket=bucket))
        except S3Error as error:
            raise S3Error("NoSuchBucket", BucketName=bucket) if error.status == 404 else error from None

    async def list_objects(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        max_keys: int = 1000,
        token: str | None = None,
        with_owner: bool = False,
    ) -> Listing:
        """See Upstream."""
        return await list_page(
            self._calls,
            self._client,
            bucket,
            prefix=prefix,
            delimiter=delimiter,
            after=after,
            max_keys=max_keys,
            token=token,
            with_owner=with_owner,
        )

    # Objects

    async def head(
        self, bucket: str, key: str, *, version_id: str | None = None, checksums: bool = False
    ) -> ObjectInfo:
        """See Upstream."""
        mode = {"ChecksumMode": "ENABLED"} if checksums else {}
        answer = await self._calls.make(
            f"HeadObject {bucket}/{key}",
            lambda: self._client.head_object(Bucket=bucket, Key=key, **version(version_id), **mode),
        )
        return _info(answer, answer["ContentLength"])

    async def tags(self, bucket: str, key: str, *, version_id: str | None = None) -> str:
        """See Upstream."""
        return await read_tags(self._calls, self._client, bucket, key, version_id)

    async def get(
        self,
        bucket: str,
        key: str,
        *,
        byte_range: ByteRange | None = None,
        if_match: str | None = None,
        version_id: str | None = None,
    ) -> ObjectBody:
        """See Upstream."""
        query = version_query(version_id)
        headers = {**range_header(byte_range), **({"if-match": f'"{if_match}"'} if if_match else {})}
        what = f"GetObject {bucket}/{key}"
        try:
            answer, chunks = await self._raw.open(bucket, key, query, headers)
        except S3Error as error:
            if error.status != 416:
                raise
            return await self._get_empty(bucket, key, version_id, error)
        return read_answer(answer, chunks, what, self._calls.patience)

    async def _get_empty(self, bucket: str, key: str, version_id: str | None, error: S3Error) -> ObjectBody:
        """Every range of an empty object is unsatisfiable in S3; its headers are wanted all the same."""
        info = await self.head(bucket, key, version_id=version_id)
        if info.size:
            raise S3Error("InvalidRange", ActualObjectSize=str(info.size)) from error
        return ObjectBody(info, no_body(), 0)

    async def put(
        self,
        bucket: str,
        key: str,
        body: Body,
        length: int,
        headers: Headers,
        conditions: Conditions | None = None,
        checksum: SentChecksum | None = None,
    ) -> Stored:
        """See Upstream."""
        if isinstance(body, bytes):
            check_sendable(headers)
        sent = {**headers, **condition_headers(conditions)}
        answer = await self._send(bucket, key, "", sent, body, length, checksum)
        return Stored(answer["etag"].strip('"'), write_headers(answer))

    async def _send(
        self,
        bucket: str,
        key: str,
        query: str,
        headers: Headers,
        body: Body,
        length: int,
        checksum: SentChecksum | None = None,
    ) -> Headers:
        """A PUT, made again where the body is still there."""

        if isinstance(body, bytes):
            return await self._raw.send_whole(bucket, key, query, headers, body, checksum)
        return await self._calls.stream(
            lambda: self._raw.send("PUT", bucket, key, query, headers, body, length, checksum)
        )

    async def copy(
        self,
        source: tuple[str, str],
        target: tuple[str, str],
        headers: Headers,
        *,
        replace: bool,
        source_if_match: str,
        source_version_id: str | None = None,
        conditions: Conditions | None = None,
    ) -> Stored:
        """See Upstream."""
        info = await self.head(*source, version_id=source_version_id)
        named = {"Bucket": source[0], "Key": source[1], **version(source_version_id)}
        if info.size > _MAX_COPY_BYTES:
            kept = headers if replace else {**inherited(info.headers), **headers}
            kept = await copied_tags(kept, lambda: self.tags(*source, version_id=source_version_id))
            return await copy_in_parts(
                self, self._calls, self._patient_client, named, target, kept, info.size, source_if_match, conditions
            )
        answer = await self._calls.make(
            f"CopyObject {target[0]}/{target[1]}",
            lambda: self._patient_client.copy_object(
                Bucket=target[0],
                Key=target[1],
                CopySource=named,
                CopySourceIfMatch=f'"{source_if_match}"',
                MetadataDirective="REPLACE" if replace else "COPY",
                **self._shapes.parameters("CopyObject", headers),
                **condition_parameters(conditions),
            ),
            size=info.size,
        )
        result = answer["CopyObjectResult"]
        return Stored(
            result["ETag"].strip('"'),
            write_headers(answer_headers(answer)),
            result.get("LastModified"),
            {header: result[name] for name, header in ELEMENTS.items() if name in result},
        )

    async def delete(
        self,
        bucket: str,
        key: str,
        *,
        version_id: str | None = None,
        conditions: Conditions | None = None,
        headers: Headers | None = None,
    ) -> Headers:
        """See Upstream."""
        matched = {"IfMatch": conditions.if_match} if conditions and conditions.if_match else {}
        answer = await self._calls.make(
            f"DeleteObject {bucket}/{key}",
            lambda: self._client.delete_object(
                Bucket=bucket,
                Key=key,
                **version(version_id),
                **matched,
                **self._shapes.parameters("DeleteObject", headers or {}),
            ),
        )
        return write_headers(answer_headers(answer))

    # Multipart uploads

    async def create_upload(
        self, bucket: str, key: str, headers: Headers, *, on_repeat: Callable[[], None] | None = None
    ) -> str:
        """See Upstream."""
        answer = await self._calls.make(
            f"CreateMultipartUpload {bucket}/{key}",
            lambda: self._client.create_multipart_upload(
                Bucket=bucket, Key=key, **self._shapes.parameters("CreateMultipartUpload", headers)
            ),
            on_repeat=on_repeat,
        )
        return str(answer["UploadId"])

    async def put_part(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        number: int,
        body: Body,
        length: int,
        checksum: SentChecksum | None = None,
    ) -> Part:
        """See Upstream."""
        query = f"partNumber={number}&uploadId={quote(upload_id, safe='-._~')}"
        answer = await self._send(bucket, key, query, {}, body, length, checksum)
        return Part(number, answer["etag"].strip('"'), length)

    async def complete_upload(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[Part],
        conditions: Conditions | None = None,
        checksums: Headers | None = None,
    ) -> Stored:
        """See Upstream."""
        listed = [{"PartNumber": part.number, "ETag": f'"{part.etag}"', **elements(part.checksums)} for part in parts]
        kind = {"ChecksumType": checksums["x-amz-checksum-type"]} if checksums else {}
        answer = await self._calls.make(
            f"CompleteMultipartUpload {bucket}/{key}",
            lambda: self._patient_client.complete_multipart_upload(
                Bucket=bucket,
                Key=key,
                UploadId=upload_id,
                MultipartUpload={"Parts": listed},
                **kind,
                **condition_parameters(conditions),
            ),
            size=sum(part.size for part in parts),
        )
        return Stored(answer["ETag"].strip('"'), write_headers(answer_headers(answer)))

    async def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        """See Upstream."""
        await self._calls.make(
            f"AbortMultipartUpload {bucket}/{key}",
            lambda: self._client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id),
        )

    async def has_parts(self, bucket: str, key: str, upload_id: str) -> bool:
        """See Upstream."""
        asked = {"Bucket": bucket, "Key": key, "UploadId": upload_id, "MaxParts": 1}
        answer = await self._calls.make(f"ListParts {bucket}/{key}", lambda: self._client.list_parts(**asked))
        return bool(answer.get("Parts"))

    async def list_uploads(self, bucket: str, *, prefix: str = "") -> Sequence[Upload]:
        """See Upstream."""
        return await list_uploads(self._calls, self._client, bucket, prefix)

    async def forward(self, request: Forwarded) -> Forwarded:
        """See Upstream."""
        return await self._raw.forward(request)


def _info(answer: Any, size: int) -> ObjectInfo:
    return ObjectInfo(size, answer["ETag"].strip('"'), answer["LastModified"], answer_headers(answer))
