"""GetObjectAttributes, of the object as the client wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from s4weights.proxy.checksums.algorithms import TYPE_HEADER, checksum_headers, elements
from s4weights.proxy.context import Context, http_date
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.xml import Tree
from s4weights.proxy.objects.types import LogicalObject

from .archived import find_unless_archived
from .attributes import check_key
from .forward import forward
from .list_objects import read_max

_KNOWN: Final = frozenset({"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"})
_MAX_PARTS: Final = 1_000


async def get_object_attributes(context: Context) -> web.StreamResponse:
    """What the client asks for of size, ETag, checksum and parts."""
    check_key(context.key)
    asked = {item.strip() for item in context.headers.get("x-amz-object-attributes", "").split(",") if item.strip()}
    if not asked or asked - _KNOWN:
        raise S3Error("InvalidArgument", "Invalid attribute name specified.", ArgumentName="x-amz-object-attributes")
    found = await find_unless_archived(context)
    if found is None:
        return await forward(context)
    if not found.is_container:
        try:
            return await forward(context)  # the bucket knows the parts of what passed through
        except S3Error as error:
            if error.code != "NotImplemented":
                raise
    checksums = await context.objects.checksums(found)
    tree: dict[str, Tree | None] = {
        "ETag": found.info.etag if "ETag" in asked else None,
        "Checksum": _checksum(checksums) if "Checksum" in asked else None,
        "ObjectParts": _parts(context, found, checksums) if "ObjectParts" in asked else None,
        "StorageClass": found.info.headers.get("x-amz-storage-class", "STANDARD") if "StorageClass" in asked else None,
        "ObjectSize": str(found.info.size) if "ObjectSize" in asked else None,
    }
    headers = {"Last-Modified": http_date(found.info.last_modified)}
    if "x-amz-version-id" in found.info.headers:
        headers["x-amz-version-id"] = found.info.headers["x-amz-version-id"]
    return context.xml("GetObjectAttributesResponse", tree, headers=headers)


def _checksum(checksums: Mapping[str, str]) -> Tree | None:
    if not checksum_headers(checksums):
        return None
    return {**elements(checksums), "ChecksumType": checksums.get(TYPE_HEADER)}


def _parts(context: Context, found: LogicalObject, checksums: Mapping[str, str]) -> Tree | None:
    if not found.parts:
        return None
    header = next(iter(checksum_headers(checksums)), "")
    most = read_max(context.headers, "x-amz-max-parts", _MAX_PARTS)
    marker = read_max(context.headers, "x-amz-part-number-marker", 10_000, default=0)
    numbers = range(1, len(found.parts) + 1)[marker : marker + most]
    rows: list[Mapping[str, Tree | None]] = [
        {
            "PartNumber": str(number),
            "Size": str(found.parts[number - 1]),
            **(elements({header: found.part_checksums[number - 1]}) if found.part_checksums else {}),
        }
        for number in numbers
    ]
    return {
        "PartsCount": str(len(found.parts)),
        "PartNumberMarker": str(marker),
        "NextPartNumberMarker": str(numbers[-1]) if numbers else str(marker),
        "MaxParts": str(most),
        "IsTruncated": "true" if numbers and numbers[-1] < len(found.parts) else "false",
        "Part": rows,
    }
