"""Listings: one page of objects, by ListObjectsV2, and all open uploads."""

from __future__ import annotations

from typing import Any

from s4weights.proxy.upstream.protocol import Entry, Listing, Upload

from .calls import Calls


async def list_page(
    calls: Calls,
    client: Any,
    bucket: str,
    *,
    prefix: str,
    delimiter: str,
    after: str,
    max_keys: int,
    token: str | None,
    with_owner: bool,
) -> Listing:
    """See Upstream.list_objects. client: botocore's."""
    start = {"ContinuationToken": token} if token else {"StartAfter": beyond(after, prefix, delimiter)}
    asked = {"Prefix": prefix, "Delimiter": delimiter, **start}
    answer = await calls.make(
        f"ListObjectsV2 {bucket}",
        lambda: client.list_objects_v2(
            Bucket=bucket,
            MaxKeys=max_keys,
            FetchOwner=with_owner,
            **{name: value for name, value in asked.items() if value},
        ),
    )
    entries = [_entry(row) for row in answer.get("Contents", [])]
    prefixes = [row["Prefix"] for row in answer.get("CommonPrefixes", []) if row["Prefix"] != after]
    if not answer.get("IsTruncated"):
        return Listing(entries, prefixes, None)
    last = max([entries[-1].key if entries else "", prefixes[-1] if prefixes else ""], key=str.encode)
    return Listing(entries, prefixes, last or None, answer.get("NextContinuationToken"))


async def list_uploads(calls: Calls, client: Any, bucket: str, prefix: str) -> list[Upload]:
    """See Upstream.list_uploads. client: botocore's."""

    async def pages() -> list[Upload]:
        return [
            Upload(row["Key"], row["UploadId"], row["Initiated"])
            async for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix)
            for row in page.get("Uploads", [])
        ]

    return await calls.make(f"ListMultipartUploads {bucket}", pages)


def _entry(row: dict[str, Any]) -> Entry:
    owner = row.get("Owner")
    return Entry(
        row["Key"],
        row["Size"],
        row["ETag"].strip('"'),
        row["LastModified"],
        row.get("StorageClass", "STANDARD"),
        owner=(owner.get("ID", ""), owner.get("DisplayName", "")) if owner else None,
    )


def beyond(after: str, prefix: str, delimiter: str) -> str:
    """A start that skips what lies below a common prefix already given. A key that ends so is none: `dir/` below `dir/`."""
    if not delimiter or not after.startswith(prefix):
        return after
    at = after.find(delimiter, len(prefix))
    return after + "\U0010ffff" if at >= 0 and at + len(delimiter) == len(after) else after
