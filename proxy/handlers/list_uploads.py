"""ListMultipartUploads: the uploads that clients have open here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from aiohttp import web

from s4weights.proxy.context import Context, iso_date
from s4weights.proxy.http.xml import Tree
from s4weights.proxy.upstream.protocol import Upload

from .bucket import OWNER
from .list_objects import encoding, read_max

_MAX_ROWS: Final = 1_000


async def list_multipart_uploads(context: Context) -> web.StreamResponse:
    """One page, in order of keys, then of ids."""
    query, encode = context.query, encoding(context.query)
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    marker = query.get("key-marker", ""), query.get("upload-id-marker", "")
    most = read_max(query, "max-uploads", _MAX_ROWS)
    found = await context.objects.uploads.list_uploads(context.bucket, prefix=prefix)
    rows = list(islice(_rows(found, prefix, delimiter, marker), most + 1))
    page = rows[:most]
    is_cut = len(rows) > most and bool(page)
    tree: dict[str, Tree | None] = {
        "Bucket": context.bucket,
        "KeyMarker": encode(marker[0]),
        "UploadIdMarker": marker[1],
        "NextKeyMarker": encode(_name(page[-1])) if is_cut else None,
        "NextUploadIdMarker": page[-1].upload_id if is_cut and isinstance(page[-1], Upload) else None,
        "Prefix": encode(prefix),
        "Delimiter": encode(delimiter) if delimiter else None,
        "EncodingType": "url" if "encoding-type" in query else None,
        "MaxUploads": str(most),
        "IsTruncated": "true" if is_cut else "false",
        "Upload": [_element(row, encode(row.key)) for row in page if isinstance(row, Upload)],
        "CommonPrefixes": [{"Prefix": encode(row)} for row in page if isinstance(row, str)],
    }
    return context.xml("ListMultipartUploadsResult", tree)


def _rows(uploads: Sequence[Upload], prefix: str, delimiter: str, marker: tuple[str, str]) -> Iterator[Upload | str]:
    """Uploads behind a marker (key, upload id), and what those between the prefix and a delimiter have in common."""
    key_marker, id_marker = marker
    last = ""
    for upload in sorted(uploads, key=lambda one: (one.key.encode(), one.upload_id)):
        head, found, _ = upload.key.removeprefix(prefix).partition(delimiter) if delimiter else ("", "", "")
        is_behind = not key_marker or upload.key.encode() > key_marker.encode()
        if found:
            common = prefix + head + delimiter
            if is_behind and common not in (last, key_marker):
                last = common
                yield common
        elif is_behind or (id_marker and upload.key == key_marker and upload.upload_id > id_marker):
            yield upload


def _name(row: Upload | str) -> str:
    return row if isinstance(row, str) else row.key


def _element(upload: Upload, key: str) -> Mapping[str, Tree | None]:
    return {
        "Key": key,
        "UploadId": upload.upload_id,
        "Initiator": OWNER,
        "Owner": OWNER,
        "StorageClass": "STANDARD",
        "Initiated": iso_date(upload.initiated),
    }
