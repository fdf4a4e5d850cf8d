"""ListObjectVersions: the bucket's own document, with logical sizes and ETags written into it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote_plus

from aiohttp import web

from s4weights.proxy.context import Context, iso_date
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.xml import Tree, element_document
from s4weights.proxy.lineage.names import HIDDEN
from s4weights.proxy.upstream.document import NS, read_answered
from s4weights.proxy.upstream.protocol import Entry

from .bucket import OWNER
from .forward import forwarded, pass_back
from .list_objects import encoding, read_max

_ENCODED: Final = frozenset({"Delimiter", "Key", "KeyMarker", "NextKeyMarker", "Prefix"})


async def list_object_versions(context: Context) -> web.StreamResponse:
    """One page of versions and delete markers."""
    is_asked_encoded = "encoding-type" in context.query
    try:
        call = forwarded(context, b"")
        if not is_asked_encoded:
            # Not every key can stand in a document as it is.
            call.query += "&encoding-type=url"
        answer = await context.upstream.forward(call)
    except S3Error as error:
        if error.code != "NotImplemented":
            raise
        return await _list_unversioned(context)
    if answer.status != 200:
        return await pass_back(context, answer)
    root = await read_answered(answer, "ListObjectVersions")
    is_encoded = (root.findtext(f"{NS}EncodingType") or "").strip().lower() == "url"
    for tag, name in (("Version", "Key"), ("DeleteMarker", "Key"), ("CommonPrefixes", "Prefix")):
        for element in root.findall(f"{NS}{tag}"):
            if _text(element, name, is_encoded=is_encoded).startswith(HIDDEN):
                root.remove(element)
    rows = root.findall(f"{NS}Version")
    entries = [_entry(row, is_encoded=is_encoded) for row in rows]
    for row, entry in zip(rows, await context.objects.logical_entries(context.bucket, entries), strict=True):
        _set(row, "Size", str(entry.size))
        _set(row, "ETag", f'"{entry.etag}"')
    if is_encoded and not is_asked_encoded:
        _decode(root)
    return context.empty(200, {"Content-Type": "application/xml"}, element_document(root))


def _decode(root: ElementTree.Element) -> None:
    for element in root.iter():
        if element.tag.removeprefix(NS) in _ENCODED and element.text:
            element.text = unquote_plus(element.text)
    encoded = root.find(f"{NS}EncodingType")
    if encoded is not None:
        root.remove(encoded)


def _entry(row: ElementTree.Element, *, is_encoded: bool) -> Entry:
    modified = datetime.fromisoformat(row.findtext(f"{NS}LastModified") or "1970-01-01T00:00:00Z")
    return Entry(
        _text(row, "Key", is_encoded=is_encoded),
        int(row.findtext(f"{NS}Size") or 0),
        (row.findtext(f"{NS}ETag") or "").strip('"'),
        modified if modified.tzinfo else modified.replace(tzinfo=UTC),
        version_id=row.findtext(f"{NS}VersionId"),
    )


def _text(element: ElementTree.Element, name: str, *, is_encoded: bool) -> str:
    text = element.findtext(f"{NS}{name}") or ""
    return unquote_plus(text) if is_encoded else text


def _set(row: ElementTree.Element, name: str, text: str) -> None:
    element = row.find(f"{NS}{name}")
    if element is not None:
        element.text = text


async def _list_unversioned(context: Context) -> web.StreamResponse:
    """A bucket without versions: S3 lists every object as the version `null`."""
    query, encode = context.query, encoding(context.query)
    most = read_max(query, "max-keys", 1_000)
    marker = query.get("key-marker", "")
    page = await context.upstream.list_objects(
        context.bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        after=marker,
        max_keys=most,
    )
    entries = [entry for entry in page.entries if not entry.key.startswith(HIDDEN)]
    tree: dict[str, Tree | None] = {
        "Name": context.bucket,
        "Prefix": encode(query.get("prefix", "")),
        "KeyMarker": encode(marker),
        "VersionIdMarker": "",
        "NextKeyMarker": encode(page.next_after) if page.next_after is not None else None,
        "NextVersionIdMarker": "null" if page.next_after is not None else None,
        "MaxKeys": str(most),
        "Delimiter": encode(query["delimiter"]) if query.get("delimiter") else None,
        "EncodingType": "url" if "encoding-type" in query else None,
        "IsTruncated": "true" if page.next_after is not None else "false",
        "Version": [
            {
                "Key": encode(entry.key),
                "VersionId": "null",
                "IsLatest": "true",
                "LastModified": iso_date(entry.last_modified),
                "ETag": f'"{entry.etag}"',
                "Size": str(entry.size),
                "StorageClass": entry.storage_class,
                "Owner": OWNER,
            }
            for entry in await context.objects.logical_entries(context.bucket, entries)
        ],
        "CommonPrefixes": [{"Prefix": encode(one)} for one in page.prefixes if not one.startswith(HIDDEN)],
    }
    return context.xml("ListVersionsResult", tree)
