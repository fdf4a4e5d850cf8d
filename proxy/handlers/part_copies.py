"""What UploadPartCopy asks for, and its answer, whoever holds the upload and the source."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web

from s4weights.proxy.checksums.algorithms import elements
from s4weights.proxy.context import Context, iso_date
from s4weights.proxy.errors import S3Error
from s4weights.proxy.objects.types import LogicalObject
from s4weights.proxy.upstream.protocol import Headers, Part, encryption

_COPY_RANGE: Final = re.compile(r"bytes=(\d{1,19})-(\d{1,19})")


def asked_range(context: Context) -> tuple[int, int] | None:
    """First byte and length of x-amz-copy-source-range; None: all. Raises: S3Error InvalidArgument."""
    asked = context.headers.get("x-amz-copy-source-range")
    if asked is None:
        return None
    match = _COPY_RANGE.fullmatch(asked)
    if match is None or int(match[2]) < int(match[1]):
        raise S3Error("InvalidArgument", "The x-amz-copy-source-range value must be of the form bytes=first-last.")
    return int(match[1]), int(match[2]) - int(match[1]) + 1


def asked_slice(context: Context, source: LogicalObject) -> tuple[int, int]:
    """First byte and length of what is asked of a source. Raises: S3Error InvalidArgument, InvalidRange."""
    asked = asked_range(context)
    if asked is None:
        return 0, source.info.size
    first, length = asked
    if first + length > source.info.size:
        raise S3Error("InvalidRange", "The requested range is not satisfiable.", ActualObjectSize=str(source.info.size))
    return first, length


def copied(context: Context, part: Part, begun_with: Headers) -> web.Response:
    """The answer to UploadPartCopy. begun_with: the upload's headers."""
    modified = iso_date(part.last_modified) if part.last_modified else None
    tree = {"LastModified": modified, "ETag": f'"{part.etag}"', **elements(part.checksums)}
    return context.xml("CopyPartResult", tree, headers=encryption(begun_with))
