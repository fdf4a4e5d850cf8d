"""The headers that travel with an object."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final

from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.fields import check_header
from s4weights.proxy.lineage.names import HIDDEN
from s4weights.proxy.objects.marker import MARKER
from s4weights.proxy.upstream.carried import INHERITED, USER_METADATA

# S3's own bound on user metadata: names and values together.
_MAX_METADATA_BYTES: Final = 2048
_SYSTEM: Final = INHERITED | frozenset(
    {
        "x-amz-acl",
        "x-amz-expected-bucket-owner",
        "x-amz-request-payer",
        "x-amz-storage-class",
        "x-amz-tagging",
        "x-amz-tagging-directive",
        "x-amz-website-redirect-location",
    }
)
_PREFIXES: Final = ("x-amz-grant-", "x-amz-object-lock-", "x-amz-server-side-encryption")
_CUSTOMER_KEY: Final = "x-amz-server-side-encryption-customer-"
_SOURCE_CUSTOMER_KEY: Final = "x-amz-copy-source-server-side-encryption-customer-"
COPIES: Final = frozenset({"CopyObject", "UploadPartCopy"})


def object_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those headers of a request that belong to the object.

    Raises: S3Error InvalidArgument where a client sets our own marker, or what no header may hold; MetadataTooLarge.
    """
    kept = {name: value for name, value in headers.items() if _belongs(name)}
    encodings = [item.strip() for item in kept.get("content-encoding", "").split(",")]
    encodings = [item for item in encodings if item and item.lower() != "aws-chunked"]
    kept.pop("content-encoding", None)
    if encodings:
        kept["content-encoding"] = ",".join(encodings)
    check_unmarked(kept)
    for name, value in kept.items():
        check_header(name, value)
    size = sum(
        len(name) - len(USER_METADATA) + len(value) for name, value in kept.items() if name.startswith(USER_METADATA)
    )
    if size > _MAX_METADATA_BYTES:
        raise S3Error("MetadataTooLarge", Size=str(size), MaxSizeAllowed=str(_MAX_METADATA_BYTES))
    return kept


def _belongs(name: str) -> bool:
    return name in _SYSTEM or name.startswith((USER_METADATA, *_PREFIXES))


def check_unmarked(headers: Mapping[str, str]) -> None:
    """Raises: S3Error InvalidArgument where a client sets our own marker."""
    if any(name == MARKER or name.startswith(f"{MARKER}-") for name in headers):
        raise S3Error("InvalidArgument", f"{MARKER} is kept for s4weights itself.")


def has_customer_key(headers: Mapping[str, str], operation: str = "") -> bool:
    """Whether a request brings a key of the customer's own (SSE-C), for its object or for the source of its copy."""
    wanted = (_CUSTOMER_KEY, _SOURCE_CUSTOMER_KEY) if operation in COPIES else _CUSTOMER_KEY
    return any(name.startswith(wanted) for name in headers)


def check_key(key: str) -> None:
    """Raises: S3Error AccessDenied for what s4weights keeps for itself, also where the bucket might tidy the key."""
    names = [name for name in key.split("/") if name not in ("", ".")]
    if key.startswith(HIDDEN) or (len(names) > 1 and posixpath.normpath("/".join(names)).startswith(HIDDEN)):
        raise S3Error("AccessDenied", f"{HIDDEN} is kept for s4weights itself.", Key=key)


_OF_DELETE: Final = frozenset(
    {"x-amz-bypass-governance-retention", "x-amz-expected-bucket-owner", "x-amz-mfa", "x-amz-request-payer"}
)


def delete_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those headers of a delete that the bucket decides on."""
    return {name: value for name, value in headers.items() if name in _OF_DELETE}
