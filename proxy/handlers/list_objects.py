"""ListObjects, versions 1 and 2, with logical sizes and ETags."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from aiohttp import web

from s4weights.proxy.context import Context, iso_date
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.xml import Tree
from s4weights.proxy.lineage.names import HIDDEN
from s4weights.proxy.upstream.protocol import Entry, Listing

from .bucket import OWNER

_MAX_KEYS: Final = 1_000
# After every key of our own, which are ASCII, and before every other that follows them.
_PAST_OWN: Final = f"{HIDDEN}\x7f"


async def list_objects(context: Context) -> web.StreamResponse:
    """Version 1: markers."""
    query, encode = context.query, encoding(context.query)
    page, max_keys = await _page(context, query.get("marker", ""), with_owner=True)
    tree: dict[str, Tree | None] = {
        **_common(context, max_keys, page),
        "Marker": encode(query.get("marker", "")),
        "NextMarker": encode(page.next_after) if page.next_after is not None and query.get("delimiter") else None,
        "Contents": await _contents(context, page, encode, with_owner=True),
        "CommonPrefixes": [{"Prefix": encode(prefix)} for prefix in page.prefixes],
    }
    return context.xml("ListBucketResult", tree)


async def list_objects_v2(context: Context) -> web.StreamResponse:
    """Version 2: continuation tokens."""
    query, encode = context.query, encoding(context.query)
    token = query.get("continuation-token")
    after, bucket_token = _open_token(token) if token else (query.get("start-after", ""), None)
    with_owner = query.get("fetch-owner") == "true"
    page, max_keys = await _page(context, after, bucket_token, with_owner=with_owner)
    tree: dict[str, Tree | None] = {
        **_common(context, max_keys, page),
        "KeyCount": str(len(page.entries) + len(page.prefixes)),
        "ContinuationToken": token,
        "NextContinuationToken": _make_token(page) if page.next_after is not None else None,
        "StartAfter": encode(query["start-after"]) if "start-after" in query else None,
        "Contents": await _contents(context, page, encode, with_owner=with_owner),
        "CommonPrefixes": [{"Prefix": encode(prefix)} for prefix in page.prefixes],
    }
    return context.xml("ListBucketResult", tree)


async def _page(context: Context, after: str, token: str | None = None, *, with_owner: bool) -> tuple[Listing, int]:
    if context.query.get("allow-unordered") == "true" and context.query.get("delimiter"):
        # An extension of Ceph's; a listing in order serves a client that needs none, but it would not expect this one.
        raise S3Error("InvalidArgument", "allow-unordered cannot be used with a delimiter.")
    max_keys = read_max(context.query, "max-keys", _MAX_KEYS)
    page = await _shown(context, after, max_keys, token, with_owner=with_owner)
    if page.next_after is not None and not page.entries and not page.prefixes and max_keys:
        # Only our own keys: without a name in it a page of version 1 cannot be followed by the next one.
        page = await _shown(context, max(page.next_after, _PAST_OWN), max_keys, with_owner=with_owner)
    return page, max_keys


async def _shown(context: Context, after: str, max_keys: int, token: str | None = None, *, with_owner: bool) -> Listing:
    """A page of the bucket without our own keys."""
    page = await context.upstream.list_objects(
        context.bucket,
        prefix=context.query.get("prefix", ""),
        delimiter=context.query.get("delimiter", ""),
        after=after,
        max_keys=max_keys,
        token=token,
        with_owner=with_owner,
    )
    entries = [entry for entry in page.entries if not entry.key.startswith(HIDDEN)]
    prefixes = [prefix for prefix in page.prefixes if not prefix.startswith(HIDDEN)]
    return Listing(entries, prefixes, page.next_after, page.next_token)


def _common(context: Context, max_keys: int, page: Listing) -> dict[str, Tree | None]:
    query, encode = context.query, encoding(context.query)
    return {
        "Name": context.bucket,
        "Prefix": encode(query.get("prefix", "")),
        "Delimiter": encode(query["delimiter"]) if query.get("delimiter") else None,
        "MaxKeys": str(max_keys),
        "EncodingType": "url" if "encoding-type" in query else None,
        "IsTruncated": "true" if page.next_after is not None else "false",
    }


async def _contents(
    context: Context, page: Listing, encode: Callable[[str], str], *, with_owner: bool
) -> list[Mapping[str, Tree | None]]:
    entries = await context.objects.logical_entries(context.bucket, page.entries)
    return [_row(entry, encode, with_owner=with_owner) for entry in entries]


def _row(entry: Entry, encode: Callable[[str], str], *, with_owner: bool) -> Mapping[str, Tree | None]:
    return {
        "Key": encode(entry.key),
        "LastModified": iso_date(entry.last_modified),
        "ETag": f'"{entry.etag}"',
        "Size": str(entry.size),
        "Owner": _owner(entry) if with_owner else None,
        "StorageClass": entry.storage_class,
    }


def _owner(entry: Entry) -> Mapping[str, str]:
    return {"ID": entry.owner[0], "DisplayName": entry.owner[1]} if entry.owner else OWNER


def encoding(query: Mapping[str, str]) -> Callable[[str], str]:
    """How names stand in the answer. Raises: S3Error InvalidArgument."""
    if "encoding-type" not in query:
        return str
    if query["encoding-type"] != "url":
        raise S3Error("InvalidArgument", "Invalid Encoding Method specified in Request")
    return lambda text: quote(text, safe="/-._~*")


def read_max(query: Mapping[str, str], name: str, most: int, *, default: int | None = None) -> int:
    """A max-... parameter; default: where it is not given, else `most`. Raises: S3Error InvalidArgument."""
    text = query.get(name) or str(most if default is None else default)
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > 2**31 - 1:
        raise S3Error("InvalidArgument", f"Provided {name} not an integer or within integer range", ArgumentName=name)
    return min(int(text), most)


def _make_token(page: Listing) -> str:
    """The bucket's own token where it gave one, since it alone knows where it was; else the key to go on behind."""
    text = f"t{page.next_token}" if page.next_token else f"k{page.next_after}"
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _open_token(token: str) -> tuple[str, str | None]:
    """The key to go on behind, or the bucket's own token."""
    try:
        text = base64.b64decode(token, altchars=b"-_", validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        text = ""
    if text[:1] not in ("t", "k"):
        raise S3Error("InvalidArgument", "The continuation token provided is incorrect")
    return ("", text[1:]) if text[0] == "t" else (text[1:], None)
