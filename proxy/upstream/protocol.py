"""What the proxy asks of a bucket, whether it is S3 or a directory. Everything here is stored, not logical.

Errors are S3Error with S3's own codes (NoSuchKey, NoSuchBucket, PreconditionFailed, ...), or UpstreamError
where the bucket cannot be reached.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote

Headers: TypeAlias = Mapping[str, str]
"""Header name in lower case -> value: content-type, x-amz-meta-*, x-amz-storage-class, ..."""


_ENCRYPTION: Final = frozenset(
    {
        "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-aws-kms-key-id",
        "x-amz-server-side-encryption-bucket-key-enabled",
    }
)


def encryption(headers: Headers) -> dict[str, str]:
    """How an object is encrypted, which no copy inherits."""
    return {name: value for name, value in headers.items() if name in _ENCRYPTION}


Body: TypeAlias = bytes | AsyncIterator[bytes]
"""bytes may be sent again after a fault; an iterator is sent once."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes first to last, both included; last None: to the end; first negative: the last -first bytes."""

    first: int
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditional headers, values as sent (ETags quoted, or `*`; dates in HTTP form)."""

    if_match: str | None = None
    if_none_match: str | None = None
    if_modified_since: str | None = None
    if_unmodified_since: str | None = None
    if_match_size: str | None = None
    """Of a delete; so is the next one: a time in HTTP's form or ISO 8601."""
    if_match_modified: str | None = None

    def asks_for_nothing(self) -> bool:
        """Whether there is no condition for a write."""
        return not (self.if_match or self.if_none_match or self.if_match_size or self.if_match_modified)


NO_CONDITIONS: Final = Conditions()


def names_etag(header: str, etag: str) -> bool:
    """Whether an If-Match or If-None-Match header names an ETag (without quotes)."""
    known = {item.strip().removeprefix("W/").strip('"') for item in header.split(",")}
    return bool(known & {"*", etag})


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One stored object. etag: without quotes. headers: what S3 answers beside the body (see Headers)."""

    size: int
    etag: str
    last_modified: datetime
    headers: Headers = field(default_factory=dict)


@dataclass(slots=True)
class ObjectBody:
    """An answer to get(): the object's info (size: the whole object's), and the bytes of the range asked for.

    release: gives the connection or file back, also where chunks was never begun (a generator then runs no `finally`).
    start: the object's first bytes, as many as a container's header has, where they cost no call of their own; else empty.
    """

    info: ObjectInfo
    chunks: AsyncIterator[bytes]
    length: int
    release: Callable[[], None] | None = None
    start: bytes = b""

    async def aclose(self) -> None:
        """Give the connection back without reading to the end."""
        close = getattr(self.chunks, "aclose", None)
        if close is not None:
            await close()
        if self.release is not None:
            self.release()


@dataclass(frozen=True, slots=True)
class SentChecksum:
    """A checksum that goes to the bucket with a body, which keeps it. known: before the body; otherwise value() is asked
    once the body has ended.
    """

    header: str
    value: Callable[[], str]
    known: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """What a write answered. headers: x-amz-version-id, x-amz-server-side-encryption, ... where given.

    checksums: of the object that an upload in parts became, with their type, by header.
    """

    etag: str
    headers: Headers = field(default_factory=dict)
    last_modified: datetime | None = None
    checksums: Headers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a stored multipart upload."""

    number: int
    etag: str
    size: int = 0
    last_modified: datetime | None = None
    checksums: Headers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upload:
    """One multipart upload that is open."""

    key: str
    upload_id: str
    initiated: datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a listing. etag: without quotes. storage_class as the bucket says."""

    key: str
    size: int
    etag: str
    last_modified: datetime
    storage_class: str = "STANDARD"
    version_id: str | None = None
    owner: tuple[str, str] | None = None
    """ID and display name, where they were asked for."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One page: entries and common prefixes, each in order of their UTF-8 bytes.

    next_after: the `after` of the next page, or None on the last one. next_token: the bucket's own token for that page.
    """

    entries: Sequence[Entry]
    prefixes: Sequence[str]
    next_after: str | None
    next_token: str | None = None


@dataclass(frozen=True, slots=True)
class Bucket:
    """One row of ListBuckets."""

    name: str
    created: datetime


def _nothing() -> None:
    """Of what holds no connection."""


@dataclass(slots=True)
class Forwarded:
    """A call that is passed on as it is, or its answer. body: not yet read.

    path: raw, as on the wire (percent-encoded, starting with /bucket); query: raw, without the question mark and
    without the client's authentication.
    """

    method: str = "GET"
    path: str = "/"
    query: str = ""
    status: int = 200
    headers: Headers = field(default_factory=dict)
    body: Body | None = None
    length: int | None = None
    is_signed: bool = True
    release: Callable[[], None] = _nothing
    """Of an answer: gives its connection back, also where body was never begun."""


def path_of(bucket: str, key: str = "") -> str:
    """As on the wire."""
    return f"/{quote(bucket, safe='-._~')}" + (f"/{quote(key, safe='/-._~')}" if key else "")


def version_query(version_id: str | None) -> str:
    """Of one version, or of the newest, as on the wire."""
    return f"versionId={quote(version_id, safe='-._~')}" if version_id else ""


class Upstream(Protocol):
    """A bucket store. All methods may be called concurrently from one event loop."""

    name: str
    """For people: `directory PATH`, `s3 https://...`."""

    async def start(self) -> None:
        """Open pools; raises ConfigError where the configuration cannot work."""

    async def close(self) -> None:
        """Give everything back."""

    async def check(self) -> None:
        """Raise UpstreamError where the store cannot be used now (readiness)."""

    async def list_buckets(self) -> Sequence[Bucket]: ...
    async def create_bucket(self, bucket: str, headers: Headers | None = None, document: bytes = b"") -> Headers:
        """headers: ACL, object lock, ... document: CreateBucketConfiguration; none: in the store's own region."""
        ...

    async def delete_bucket(self, bucket: str) -> None: ...
    async def head_bucket(self, bucket: str) -> None: ...

    async def list_objects(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        max_keys: int = 1000,
        token: str | None = None,
        with_owner: bool = False,
    ) -> Listing:
        """Keys greater than `after`, and common prefixes up to the delimiter; a prefix equal to `after` is skipped.

        token: next_token of the page before, which goes before `after`.
        """
        ...

    async def head(
        self, bucket: str, key: str, *, version_id: str | None = None, checksums: bool = False
    ) -> ObjectInfo:
        """checksums: with those that the bucket keeps among the headers."""
        ...

    async def tags(self, bucket: str, key: str, *, version_id: str | None = None) -> str:
        """An object's tags, as x-amz-tagging has them; empty where it has none."""

    async def get(
        self,
        bucket: str,
        key: str,
        *,
        byte_range: ByteRange | None = None,
        if_match: str | None = None,
        version_id: str | None = None,
    ) -> ObjectBody:
        """The bytes of one version. if_match: an ETag without quotes; another one there raises PreconditionFailed.

        A suffix range longer than the object gives the whole object; any range of an empty object gives 0 bytes.
        """
        ...

    async def put(
        self,
        bucket: str,
        key: str,
        body: Body,
        length: int,
        headers: Headers,
        conditions: Conditions | None = None,
        checksum: SentChecksum | None = None,
    ) -> Stored:
        """Store exactly `length` bytes; an iterator that raises or ends early leaves the old object as it was."""
        ...

    async def create_upload(
        self, bucket: str, key: str, headers: Headers, *, on_repeat: Callable[[], None] | None = None
    ) -> str:
        """on_repeat: called before the call is made again: an earlier try may have begun an upload that nobody knows."""
        ...

    async def put_part(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        number: int,
        body: Body,
        length: int,
        checksum: SentChecksum | None = None,
    ) -> Part:
        """Store one part of exactly `length` bytes; a part put again replaces the first."""
        ...

    async def complete_upload(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[Part],
        conditions: Conditions | None = None,
        checksums: Headers | None = None,
    ) -> Stored:
        """checksums: the object's own and its type, where the upload was begun with one; its parts carry theirs."""
        ...

    async def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        """Drop the upload and its parts. One that is gone may raise S3Error NoSuchUpload: not every server tells."""

    async def has_parts(self, bucket: str, key: str, upload_id: str) -> bool:
        """Whether an upload got any part. Raises: S3Error NoSuchUpload."""
        ...

    async def list_uploads(self, bucket: str, *, prefix: str = "") -> Sequence[Upload]: ...

    async def copy(
        self,
        source: tuple[str, str],
        target: tuple[str, str],
        headers: Headers,
        *,
        replace: bool,
        source_if_match: str,
        source_version_id: str | None = None,
        conditions: Conditions | None = None,
    ) -> Stored:
        """Copy on the server's side the version that has the ETag source_if_match.

        source, target: (bucket, key). headers: the new object's where replace is true; otherwise only those that a copy
        never inherits (storage class, encryption, tagging).
        """
        ...

    async def delete(
        self,
        bucket: str,
        key: str,
        *,
        version_id: str | None = None,
        conditions: Conditions | None = None,
        headers: Headers | None = None,
    ) -> Headers:
        """Remove one object; one that is not there is no error. headers: x-amz-bypass-governance-retention, x-amz-mfa, ...

        Returns S3's answer headers.
        """
        ...

    async def forward(self, request: Forwarded) -> Forwarded:
        """Send a call as it is, signed with the proxy's own credentials; S3Error NotImplemented where there is no S3."""
        ...
