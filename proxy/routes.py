"""One table: which handler answers a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from aiohttp import web

from .auth.grants import UNKNOWN_CALL
from .context import Context
from .errors import S3Error
from .forwarded_calls import FORWARDED
from .handlers import bucket as buckets
from .handlers.attributes import has_customer_key
from .handlers.copy_object import copy_object
from .handlers.customer_keys import with_customer_key
from .handlers.delete_object import delete_object
from .handlers.delete_objects import delete_objects
from .handlers.forward import forward, forward_write, rename
from .handlers.get_object import get_object, head_object
from .handlers.list_objects import list_objects, list_objects_v2
from .handlers.list_uploads import list_multipart_uploads
from .handlers.list_versions import list_object_versions
from .handlers.multipart import (
    abort_multipart_upload,
    complete_multipart_upload,
    create_multipart_upload,
    list_parts,
)
from .handlers.object_attributes import get_object_attributes
from .handlers.post_object import is_form, post_object
from .handlers.put_object import put_object
from .handlers.upload_part import upload_part, upload_part_copy

Handler: TypeAlias = Callable[[Context], Awaitable[web.StreamResponse]]

# Those that we answer ourselves (_TABLE), or not at all: the keys of a CreateSession would be the proxy's own.
_OTHERS: Final = frozenset({"attributes", "delete", "location", "session", "uploadId", "uploads", "versions"})
_SUBRESOURCES: Final = _OTHERS.union(*FORWARDED.values())
# Those that may put another object at the key.
_WRITES: Final[Mapping[tuple[str, str], Handler]] = {
    ("object", "encryption"): forward_write,
    ("object", "renameObject"): rename,
}

# Parameters of calls that we answer, which a client may send without a value.
_PARAMETERS: Final = frozenset({"partNumber", "versionId"})
# S3 takes no notice of parameters that begin so: they are for its access log.
_IGNORED: Final = "x-"

# (method, what is addressed, sub-resource) -> operation and handler. "": none. A copy source counts as one of its own.
_TABLE: Final[Mapping[tuple[str, str, str], tuple[str, Handler]]] = {
    ("GET", "service", ""): ("ListBuckets", buckets.list_buckets),
    ("PUT", "bucket", ""): ("CreateBucket", buckets.create_bucket),
    ("HEAD", "bucket", ""): ("HeadBucket", buckets.head_bucket),
    ("DELETE", "bucket", ""): ("DeleteBucket", buckets.delete_bucket),
    ("GET", "bucket", ""): ("ListObjects", list_objects),
    ("GET", "bucket", "list-type=2"): ("ListObjectsV2", list_objects_v2),
    ("GET", "bucket", "location"): ("GetBucketLocation", buckets.get_bucket_location),
    ("GET", "bucket", "versions"): ("ListObjectVersions", list_object_versions),
    ("GET", "bucket", "uploads"): ("ListMultipartUploads", list_multipart_uploads),
    ("POST", "bucket", ""): ("PostObject", post_object),
    ("POST", "bucket", "delete"): ("DeleteObjects", delete_objects),
    ("GET", "object", ""): ("GetObject", get_object),
    ("HEAD", "object", ""): ("HeadObject", head_object),
    ("GET", "object", "attributes"): ("GetObjectAttributes", get_object_attributes),
    ("PUT", "object", ""): ("PutObject", put_object),
    ("PUT", "object", "copy-source"): ("CopyObject", copy_object),
    ("DELETE", "object", ""): ("DeleteObject", delete_object),
    ("POST", "object", "uploads"): ("CreateMultipartUpload", create_multipart_upload),
    ("PUT", "object", "uploadId"): ("UploadPart", upload_part),
    ("PUT", "object", "uploadId copy-source"): ("UploadPartCopy", upload_part_copy),
    ("POST", "object", "uploadId"): ("CompleteMultipartUpload", complete_multipart_upload),
    ("DELETE", "object", "uploadId"): ("AbortMultipartUpload", abort_multipart_upload),
    ("GET", "object", "uploadId"): ("ListParts", list_parts),
}


def find_handler(context: Context) -> tuple[str, Handler]:
    """The operation's name and its handler. Raises: S3Error MethodNotAllowed, InvalidArgument."""
    method = context.request.method
    target = "object" if context.key else "bucket" if context.bucket else "service"
    subresource = _subresource(context, target)
    found = _TABLE.get((method, target, subresource))
    if found is not None and not (found[1] is post_object and not is_form(context)):
        return with_customer_key(found) if has_customer_key(context.headers, found[0]) else found
    name = subresource.partition(" ")[0]
    is_known = method in FORWARDED.get(target, {}).get(name, ())
    if is_known and (method == "GET" or not _has_unknown(context)):
        return f"Forward.{name}", _WRITES.get((target, name), forward)
    if is_known or subresource == UNKNOWN_CALL:
        return UNKNOWN_CALL, forward_write if target == "object" else forward
    raise S3Error("MethodNotAllowed", Method=method, ResourceType=target.upper())


def _subresource(context: Context, target: str) -> str:
    parts = sorted(name for name in context.query if name in _SUBRESOURCES)
    if len(parts) > 1:
        raise S3Error("InvalidArgument", f"Conflicting query string parameters: {', '.join(parts)}")
    if not parts and context.request.method not in ("GET", "HEAD") and _has_unknown(context):
        # A call newer than this table: PUT ?renameObject, taken for PutObject, would have emptied the object.
        return UNKNOWN_CALL
    if target == "bucket" and not parts and context.query.get("list-type") == "2":
        return "list-type=2"
    if context.request.method == "PUT" and "x-amz-copy-source" in context.headers:
        parts.append("copy-source")
    return " ".join(parts)


def _has_unknown(context: Context) -> bool:
    """Whether a parameter without a value, and so perhaps the name of a call, is none that we know."""
    return any(
        not value and name not in _PARAMETERS | _SUBRESOURCES and not name.lower().startswith(_IGNORED)
        for name, value in context.query.items()
    )
