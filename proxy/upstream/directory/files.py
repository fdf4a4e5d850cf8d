"""Blocking file work: temporary bodies, the one commit, and reading an open body."""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from s4weights.codec.container import HEADER_BYTES
from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.protocol import Conditions, ObjectInfo, Stored

from .durable import sync_folder
from .metadata import Metadata, MetadataFolder
from .paths import find_object, place_object, remove_empty_parents

CHUNK_BYTES: Final = 1 << 20
# An object that is replaced this often within one call is as good as absent.
_LOOKS: Final = 100


class TemporaryBody:
    """A body that is being written, outside every bucket. Not durable before `sync`."""

    def __init__(self, folder: Path) -> None:
        self._fd = -1
        self.path = folder / uuid.uuid4().hex
        self.size = 0
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def write(self, data: bytes) -> None:
        """Append the next bytes."""
        self._md5.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self.size += len(data)

    def append_file(self, path: Path) -> None:
        """Append another file, without its bytes passing through Python where the system can."""
        with path.open("rb") as source:
            left = os.fstat(source.fileno()).st_size
            self.size += left
            while left:
                left -= _copy_some(source.fileno(), self._fd, left)

    @property
    def etag(self) -> str:
        """MD5 of what was written (not of what was appended)."""
        return self._md5.hexdigest()

    def sync(self) -> None:
        """Make the bytes durable."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; it stays where it is."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def discard(self) -> None:
        """Close and remove. Harmless after a commit."""
        self.close()
        self.path.unlink(missing_ok=True)

    def __del__(self) -> None:
        # A call that is cancelled while a thread makes this never sees it.
        self.discard()


class OpenBody:
    """One version of an object: an overwrite does not change what is read from it. start: its first bytes (BucketFiles)."""

    def __init__(self, path: Path) -> None:
        self._fd = -1
        self._fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.stat = os.fstat(self._fd)
        self.start = b""

    def read(self, offset: int, size: int) -> bytes:
        """Read at an offset."""
        return os.pread(self._fd, size, offset)

    def close(self) -> None:
        """Let it go."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        # A call that is cancelled while a thread opens this never sees it.
        self.close()


class BucketFiles:
    """One bucket's files. lock: one for all changes of names in the directory."""

    def __init__(self, folder: Path, metadata: MetadataFolder, lock: threading.Lock) -> None:
        self.folder = folder
        self.metadata = metadata
        self._lock = lock

    def open(self, key: str) -> tuple[OpenBody, ObjectInfo]:
        """Raises: S3Error NoSuchKey."""
        for _ in range(_LOOKS):
            path = find_object(self.folder, key)
            if path is None:
                break
            try:
                body = OpenBody(path)
            except OSError:
                continue  # removed between the two calls: look again
            info = self.metadata.info(body.stat)
            if _is_still(path, body):
                body.start = body.read(0, HEADER_BYTES)
                return body, info
            body.close()  # replaced meanwhile, and its metadata may be gone
        raise S3Error("NoSuchKey", Key=key)

    def info(self, key: str) -> ObjectInfo | None:
        """The object at a key, or None."""
        path = find_object(self.folder, key)
        return self.metadata.info(path.stat()) if path is not None else None

    def commit(
        self,
        body: TemporaryBody,
        key: str,
        etag: str,
        headers: Mapping[str, str],
        conditions: Conditions | None,
    ) -> Stored:
        """Make a body the object of a key: metadata first, then one rename. Raises: S3Error PreconditionFailed."""
        body.sync()
        body.close()
        with self._lock:
            old = self.info(key)
            check_write(conditions, old)
            stat = body.path.stat()
            self.metadata.write(stat, Metadata(etag, headers))
            path = place_object(self.folder, key)
            old_inode = path.stat().st_ino if path.exists() else None
            os.replace(body.path, path)
            sync_folder(path.parent)
            if old_inode is not None:
                self.metadata.drop(old_inode)
            info = self.metadata.info(path.stat())
        return Stored(etag, {}, info.last_modified)

    def delete(self, key: str, conditions: Conditions | None) -> None:
        """Remove an object; one that is not there is no error."""
        with self._lock:
            path = find_object(self.folder, key)
            check_write(conditions, self.metadata.info(path.stat()) if path else None)
            if path is None:
                return
            inode = path.stat().st_ino
            path.unlink()
            sync_folder(path.parent)
            self.metadata.drop(inode)
            remove_empty_parents(self.folder, path)

    def under_lock(self, work: Callable[[], None]) -> None:
        """Run something that changes names."""
        with self._lock:
            work()


def check_write(conditions: Conditions | None, old: ObjectInfo | None) -> None:
    """Raises: S3Error PreconditionFailed, NoSuchKey."""
    if conditions is None:
        return
    refused = conditions.if_none_match
    if refused is not None and old is not None and refused.strip('" ') in ("*", old.etag):
        raise S3Error("PreconditionFailed", Condition="If-None-Match")
    if conditions.if_match is not None:
        if old is None:
            raise S3Error("NoSuchKey")
        if conditions.if_match.strip() != "*" and conditions.if_match.strip('" ') != old.etag:
            raise S3Error("PreconditionFailed", Condition="If-Match")


def _copy_some(source: int, target: int, left: int) -> int:
    try:
        copied = os.copy_file_range(source, target, min(left, 1 << 30))
    except OSError:
        data = os.read(source, min(left, CHUNK_BYTES))
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]
        copied = len(data)
    if copied == 0:
        raise S3Error("InternalError", "A part's file ended before its size.")
    return copied


def _is_still(path: Path, body: OpenBody) -> bool:
    try:
        return path.stat().st_ino == body.stat.st_ino
    except FileNotFoundError:
        return False
