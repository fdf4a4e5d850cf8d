"""Bucket and key out of a request, in path style and virtual-host style. Keys are never normalised."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from s4weights.proxy.errors import S3Error

# S3's own bound.
MAX_KEY_BYTES: Final = 1024
# What any server calls a bucket, with the tenant that Ceph's may have; no slash, so that it is one name for every reader.
_BUCKET: Final = re.compile(r"(?:[\w-][\w.-]*:)?[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """bucket, key: empty where the request names none. in_host: the bucket was named by the host."""

    bucket: str
    key: str
    in_host: bool = False


def parse_address(raw_path: str, host: str, domains: Sequence[str]) -> Address:
    """raw_path: as on the wire, without the query. domains: bases of virtual-host names (S4W_DOMAIN).

    Raises: S3Error InvalidURI, InvalidBucketName, KeyTooLongError.
    """
    path = raw_path.removeprefix("/")
    bucket = _bucket_of_host(host, domains)
    if bucket is not None:
        check_bucket(bucket)
        return Address(bucket, _key(path), in_host=True)
    raw_bucket, _, raw_key = path.partition("/")
    bucket = _decode(raw_bucket)
    if bucket:
        check_bucket(bucket)
    return Address(bucket, _key(raw_key))


def check_bucket(bucket: str) -> None:
    """Raises: S3Error InvalidBucketName for what could name something else than a bucket to another reader."""
    if not _BUCKET.fullmatch(bucket):
        raise S3Error("InvalidBucketName", BucketName=bucket)


def _bucket_of_host(host: str, domains: Sequence[str]) -> str | None:
    name = host.rsplit(":", 1)[0] if ":" in host.rpartition("]")[2] else host
    for domain in domains:
        suffix = f".{domain.lower()}"
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return None


def _key(raw: str) -> str:
    key = _decode(raw)
    if len(key.encode()) > MAX_KEY_BYTES:
        raise S3Error("KeyTooLongError", MaxSizeAllowed=str(MAX_KEY_BYTES))
    return key


def _decode(raw: str) -> str:
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeError:
        raise S3Error("InvalidURI") from None
    if "\x00" in text:
        raise S3Error("InvalidURI", "A key cannot hold a NUL byte.")
    return text
