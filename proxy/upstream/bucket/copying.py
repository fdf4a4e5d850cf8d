"""Copies past S3's 5 GiB of one call: part by part, still on the bucket's side."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.protocol import Conditions, Headers, Part, Stored, Upstream

from .calls import Calls
from .parameters import version

_log = logging.getLogger(__name__)

# Of servers that have none, or say so of an object without any.
_NO_TAGS: Final = frozenset({"MethodNotAllowed", "NoSuchTagSet", "NotImplemented"})
_PART_BYTES: Final = 1 << 30
_AT_ONCE: Final = 8


async def copy_in_parts(
    upstream: Upstream,
    calls: Calls,
    client: Any,
    source: Mapping[str, str],
    target: tuple[str, str],
    headers: Headers,
    size: int,
    if_match: str,
    conditions: Conditions | None,
) -> Stored:
    """Copy size bytes of source (botocore's CopySource) to target (bucket, key)."""
    bucket, key = target
    upload_id = await upstream.create_upload(bucket, key, headers)
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def copy_part(number: int, first: int) -> Part:
        last = min(first + _PART_BYTES, size) - 1
        async with at_once:
            answer = await calls.make(
                f"UploadPartCopy {number} of {bucket}/{key}",
                lambda: client.upload_part_copy(
                    Bucket=bucket,
                    Key=key,
                    UploadId=upload_id,
                    PartNumber=number,
                    CopySource=source,
                    CopySourceIfMatch=f'"{if_match}"',
                    CopySourceRange=f"bytes={first}-{last}",
                ),
                size=last + 1 - first,
            )
        return Part(number, answer["CopyPartResult"]["ETag"].strip('"'), last + 1 - first)

    starts = range(0, size, _PART_BYTES)
    tasks = [asyncio.create_task(copy_part(number, first)) for number, first in enumerate(starts, 1)]
    try:
        parts = await asyncio.gather(*tasks)
        return await upstream.complete_upload(bucket, key, upload_id, parts, conditions)
    except BaseException:
        # A part that arrives after the abort would stay, and cost, for ever.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await upstream.abort_upload(bucket, key, upload_id)
        except (S3Error, UpstreamError) as error:
            _log.warning("upload of %s/%s could not be aborted upstream: %s", bucket, key, error)
        raise


async def read_tags(calls: Calls, client: Any, bucket: str, key: str, version_id: str | None) -> str:
    """As x-amz-tagging has them."""
    try:
        answer = await calls.make(
            f"GetObjectTagging {bucket}/{key}",
            lambda: client.get_object_tagging(Bucket=bucket, Key=key, **version(version_id)),
        )
    except S3Error as error:
        if error.code in _NO_TAGS:
            return ""
        raise
    return urlencode({tag["Key"]: tag["Value"] for tag in answer["TagSet"]}, quote_via=quote)
