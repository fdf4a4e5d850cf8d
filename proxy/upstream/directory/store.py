"""DirectoryUpstream: buckets are the first-level folders of a directory. See ADR 0005."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from s4weights.codec.errors import ConfigError
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.forks import close_here, close_in_children
from s4weights.proxy.threads import in_thread
from s4weights.proxy.upstream.protocol import (
    Body,
    Bucket,
    ByteRange,
    Conditions,
    Forwarded,
    Headers,
    Listing,
    ObjectBody,
    ObjectInfo,
    Part,
    SentChecksum,
    Stored,
    Upload,
)

from .durable import make_folder, sync_folder
from .files import CHUNK_BYTES, BucketFiles, OpenBody, TemporaryBody
from .keymap import is_directory
from .metadata import MetadataFolder
from .multipart import UploadFolder
from .page import list_page

_T = TypeVar("_T")
# Disk calls at once; more threads only queue at the disk.
_THREADS: Final = 16
_OWN: Final = ".s4weights"
_BUCKET: Final = re.compile("[a-z0-9A-Z][a-z0-9A-Z._-]{1,61}[a-z0-9A-Z]")


class DirectoryUpstream:
    """S3's semantics on a local directory: atomic, durable writes; ETags; metadata; multipart; listing in key order."""

    def __init__(self, root: Path) -> None:
        self.name = f"directory {root}"
        self._root = root
        self._own = root / _OWN
        self._temporary = self._own / "tmp"
        self._uploads = UploadFolder(self._own / "uploads", self._temporary)
        self._names = threading.Lock()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="directory")
        self._lock_fd: int | None = None

    async def start(self) -> None:
        """See Upstream. Takes the directory for this process and drops what a crash left in its temporary folder."""
        await self._run(self._open)

    def _open(self) -> None:
        if not self._root.is_dir():
            raise ConfigError(f"upstream {self._root}: expected a directory that exists")
        make_folder(self._own)
        self._lock_fd = os.open(self._own / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock_fd)
            self._lock_fd = None
            raise ConfigError(
                f"upstream {self._root}: another s4weights is using it, and one at a time can: end the other one first"
            ) from None
        close_in_children(self._lock_fd)
        shutil.rmtree(self._temporary, ignore_errors=True)
        for folder in (self._temporary, self._own / "uploads", self._own / "meta"):
            make_folder(folder)

    async def close(self) -> None:
        """See Upstream."""
        await asyncio.to_thread(self._pool.shutdown)
        if self._lock_fd is not None:
            close_here(self._lock_fd)
            self._lock_fd = None

    async def check(self) -> None:
        """See Upstream."""
        if not await self._run(lambda: os.access(self._temporary, os.W_OK | os.X_OK)):
            raise UpstreamError(f"{self.name}: cannot be written")

    # Buckets

    async def list_buckets(self) -> Sequence[Bucket]:
        """See Upstream."""

        def work() -> list[Bucket]:
            folders = [path for path in self._root.iterdir() if _BUCKET.fullmatch(path.name) and is_directory(path)]
            return [Bucket(one.name, datetime.fromtimestamp(int(one.stat().st_mtime), UTC)) for one in sorted(folders)]

        return await self._run(work)

    async def create_bucket(self, bucket: str, headers: Headers | None = None, document: bytes = b"") -> Headers:
        """See Upstream."""
        folder = self._bucket_path(bucket)

        def work() -> None:
            folder.mkdir()
            sync_folder(self._root)

        try:
            await self._run(work)
        except FileExistsError:
            raise S3Error("BucketAlreadyOwnedByYou", BucketName=bucket) from None
        return {}

    async def delete_bucket(self, bucket: str) -> None:
        """See Upstream."""
        files = self._files(bucket)

        def work() -> None:
            try:
                files.folder.rmdir()
            except OSError:
                raise S3Error("BucketNotEmpty", BucketName=bucket) from None
            shutil.rmtree(self._own / "meta" / bucket, ignore_errors=True)

        await self._run(lambda: files.under_lock(work))

    async def head_bucket(self, bucket: str) -> None:
        """See Upstream."""
        self._files(bucket)

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
        """See Upstream."""
        files = self._files(bucket)
        return await self._run(lambda: list_page(files, prefix, delimiter, after, max_keys))

    # Objects

    async def head(
        self, bucket: str, key: str, *, version_id: str | None = None, checksums: bool = False
    ) -> ObjectInfo:
        """See Upstream."""
        body, info = await self._open_body(bucket, key, version_id)
        body.close()
        return info

    async def tags(self, bucket: str, key: str, *, version_id: str | None = None) -> str:
        """See Upstream. A directory keeps none."""
        return ""

    async def get(
        self,
        bucket: str,
        key: str,
        *,
        byte_range: ByteRange | None = None,
        if_match: str | None = None,
        version_id: str | None = None,
    ) -> ObjectBody:
        """See Upstream."""
        body, info = await self._open_body(bucket, key, version_id)
        try:
            if if_match is not None and if_match != info.etag:
                raise S3Error("PreconditionFailed", Condition="If-Match")
            first, end = _bounds(byte_range, info.size)
        except S3Error:
            body.close()
            raise
        return ObjectBody(info, self._chunks(body, first, end), end - first, body.close, body.start)

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
        """See Upstream."""
        files = self._files(bucket)
        _refuse_customer_key(headers)
        written = await self._write(body, length)
        if checksum is not None:
            headers = {**headers, checksum.header: checksum.value(), "x-amz-checksum-type": "FULL_OBJECT"}
        try:
            return await self._run(lambda: files.commit(written, key, written.etag, headers, conditions))
        finally:
            await self._run(written.discard)

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
        """See Upstream."""
        files = self._files(target[0])
        found = await self.get(*source, if_match=source_if_match, version_id=source_version_id)
        kept = headers if replace else found.info.headers
        try:
            written = await self._write(found.chunks, found.length)
        finally:
            await found.aclose()
        try:
            return await self._run(lambda: files.commit(written, target[1], written.etag, kept, conditions))
        finally:
            await self._run(written.discard)

    async def delete(
        self,
        bucket: str,
        key: str,
        *,
        version_id: str | None = None,
        conditions: Conditions | None = None,
        headers: Headers | None = None,
    ) -> Headers:
        """See Upstream."""
        files = self._files(bucket)
        _check_version(version_id)
        await self._run(lambda: files.delete(key, conditions))
        return {}

    # Multipart uploads

    async def create_upload(
        self, bucket: str, key: str, headers: Headers, *, on_repeat: Callable[[], None] | None = None
    ) -> str:
        """See Upstream."""
        self._files(bucket)
        _refuse_customer_key(headers)
        return await self._run(lambda: self._uploads.create(bucket, key, headers))

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
        """See Upstream."""
        await self._run(lambda: self._uploads.headers(bucket, key, upload_id))
        written = await self._write(body, length)
        try:
            return await self._run(lambda: self._uploads.add(bucket, key, upload_id, number, written))
        finally:
            await self._run(written.discard)

    async def complete_upload(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[Part],
        conditions: Conditions | None = None,
        checksums: Headers | None = None,
    ) -> Stored:
        """See Upstream."""
        files = self._files(bucket)

        def work() -> Stored:
            headers = {**self._uploads.headers(bucket, key, upload_id), **(checksums or {})}
            body, etag = self._uploads.join(bucket, key, upload_id, parts)
            try:
                stored = files.commit(body, key, etag, headers, conditions)
            finally:
                body.discard()
            self._uploads.drop(bucket, key, upload_id)
            return stored

        return await self._run(work)

    async def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        """See Upstream."""
        await self._run(lambda: self._uploads.drop(bucket, key, upload_id))

    async def has_parts(self, bucket: str, key: str, upload_id: str) -> bool:
        """See Upstream."""
        return await self._run(lambda: self._uploads.has_parts(bucket, key, upload_id))

    async def list_uploads(self, bucket: str, *, prefix: str = "") -> Sequence[Upload]:
        """See Upstream."""
        self._files(bucket)
        return await self._run(lambda: self._uploads.open_uploads(bucket, prefix))

    async def forward(self, request: Forwarded) -> Forwarded:
        """See Upstream."""
        raise S3Error("NotImplemented", "A local directory has no such call.")

    # Within

    async def _run(self, work: Callable[[], _T]) -> _T:
        return await in_thread(work, executor=self._pool)

    def _bucket_path(self, bucket: str) -> Path:
        if not _BUCKET.fullmatch(bucket):
            raise S3Error("InvalidBucketName", BucketName=bucket)
        return self._root / bucket

    def _files(self, bucket: str) -> BucketFiles:
        folder = self._bucket_path(bucket)
        if not is_directory(folder):
            raise S3Error("NoSuchBucket", BucketName=bucket)
        return BucketFiles(folder, MetadataFolder(self._own / "meta" / bucket), self._names)

    async def _open_body(self, bucket: str, key: str, version_id: str | None) -> tuple[OpenBody, ObjectInfo]:
        files = self._files(bucket)
        _check_version(version_id)
        return await self._run(lambda: files.open(key))

    async def _write(self, body: Body, length: int) -> TemporaryBody:
        written = await self._run(lambda: TemporaryBody(self._temporary))
        try:
            async for chunk in _iterate(body):
                await self._run(partial(written.write, chunk))
            if written.size != length:
                raise S3Error("IncompleteBody", f"Expected {length} bytes, found {written.size}.")
        except BaseException:
            written.discard()
            raise
        return written

    async def _chunks(self, body: OpenBody, first: int, end: int) -> AsyncIterator[bytes]:
        try:
            while first < end:
                chunk = await self._run(partial(body.read, first, min(CHUNK_BYTES, end - first)))
                if not chunk:
                    raise UpstreamError(f"{self.name}: a file ended at byte {first}, expected {end}")
                first += len(chunk)
                yield chunk
        finally:
            body.close()


async def _iterate(body: Body) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        yield body
    else:
        async for chunk in body:
            yield chunk


def _check_version(version_id: str | None) -> None:
    if version_id not in (None, "null"):
        raise S3Error("NoSuchVersion", VersionId=version_id or "")


def _refuse_customer_key(headers: Headers) -> None:
    if any(name.startswith("x-amz-server-side-encryption-customer-") for name in headers):
        raise S3Error("NotImplemented", "A local directory does not encrypt (SSE-C).")


def _bounds(byte_range: ByteRange | None, size: int) -> tuple[int, int]:
    if byte_range is None or size == 0:
        return 0, size
    if byte_range.first < 0:
        return max(0, size + byte_range.first), size
    if byte_range.first >= size:
        raise S3Error("InvalidRange", ActualObjectSize=str(size))
    last = size - 1 if byte_range.last is None else min(byte_range.last, size - 1)
    return byte_range.first, max(byte_range.first, last + 1)
