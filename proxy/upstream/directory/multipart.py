"""Multipart uploads as folders of parts. Source: S3's rules for CompleteMultipartUpload."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.protocol import Part, Upload

from .files import TemporaryBody

# S3's own bounds.
_MIN_PART_BYTES: Final = 5 << 20
_MAX_PARTS: Final = 10_000
_ID: Final = re.compile("[0-9a-f]{32}")
_PART: Final = re.compile("([0-9]{5})-([0-9a-f]{32})")


class UploadFolder:
    """All open uploads of a directory."""

    def __init__(self, folder: Path, temporary: Path) -> None:
        self._folder = folder
        self._temporary = temporary

    def create(self, bucket: str, key: str, headers: Mapping[str, str]) -> str:
        """Begin an upload."""
        upload_id = uuid.uuid4().hex
        fields = {
            "bucket": bucket,
            "key": key,
            "headers": dict(headers),
            "initiated": datetime.now(UTC).isoformat(),
        }
        made = self._temporary / upload_id
        made.mkdir()
        with (made / "upload.json").open("w", encoding="utf-8") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        made.rename(self._folder / upload_id)
        return upload_id

    def headers(self, bucket: str, key: str, upload_id: str) -> Mapping[str, str]:
        """The headers an upload was begun with. Raises: S3Error NoSuchUpload."""
        headers: Mapping[str, str] = self._fields(bucket, key, upload_id)["headers"]
        return headers

    def add(self, bucket: str, key: str, upload_id: str, number: int, body: TemporaryBody) -> Part:
        """Take a finished body as part number; an earlier one is replaced. Raises: S3Error NoSuchUpload.

        Not durable before `join`: an upload does not outlive its process, so nobody joins what a power failure tore.
        """
        self._fields(bucket, key, upload_id)
        if not 1 <= number <= _MAX_PARTS:
            raise S3Error("InvalidArgument", f"Part number must be an integer between 1 and {_MAX_PARTS}, inclusive.")
        folder = self._folder / upload_id
        body.close()
        path = folder / f"{number:05}-{body.etag}"
        old = [entry for entry in folder.glob(f"{number:05}-*") if entry != path]
        try:
            os.replace(body.path, path)
        except FileNotFoundError:  # ended meanwhile
            raise S3Error("NoSuchUpload", UploadId=upload_id) from None
        for entry in old:
            entry.unlink(missing_ok=True)
        return Part(number, body.etag, body.size, datetime.now(UTC))

    def join(self, bucket: str, key: str, upload_id: str, parts: Sequence[Part]) -> tuple[TemporaryBody, str]:
        """One body of the parts chosen, and its ETag. The upload stays until `drop`.

        Raises: S3Error NoSuchUpload, InvalidPart, InvalidPartOrder, EntityTooSmall.
        """
        self._fields(bucket, key, upload_id)
        paths = self._check(upload_id, parts)
        body = TemporaryBody(self._temporary)
        try:
            for part, path in zip(parts, paths, strict=True):
                try:
                    body.append_file(path)
                except FileNotFoundError:  # sent again meanwhile, with other bytes
                    raise S3Error("InvalidPart", PartNumber=str(part.number), ETag=part.etag) from None
        except BaseException:
            body.discard()
            raise
        md5s = b"".join(bytes.fromhex(part.etag) for part in parts)
        return body, f"{hashlib.md5(md5s, usedforsecurity=False).hexdigest()}-{len(parts)}"

    def drop(self, bucket: str, key: str, upload_id: str) -> None:
        """Remove an upload and its parts. Raises: S3Error NoSuchUpload."""
        self._fields(bucket, key, upload_id)
        # Out of sight first: a crash half-way leaves a leftover in the temporary folder, not half an upload.
        gone = self._temporary / f"{upload_id}.gone"
        try:
            (self._folder / upload_id).rename(gone)
        except FileNotFoundError:  # ended meanwhile
            raise S3Error("NoSuchUpload", UploadId=upload_id) from None
        shutil.rmtree(gone, ignore_errors=True)

    def has_parts(self, bucket: str, key: str, upload_id: str) -> bool:
        """Whether an upload got any part. Raises: S3Error NoSuchUpload."""
        self._fields(bucket, key, upload_id)
        return any(_PART.fullmatch(entry.name) for entry in (self._folder / upload_id).iterdir())

    def open_uploads(self, bucket: str, prefix: str) -> list[Upload]:
        """The open uploads of a bucket by key and age."""
        found = []
        for folder in self._folder.iterdir():
            fields = _read_fields(folder / "upload.json")
            if fields and fields["bucket"] == bucket and fields["key"].startswith(prefix):
                found.append(Upload(fields["key"], folder.name, datetime.fromisoformat(fields["initiated"])))
        return sorted(found, key=lambda upload: (upload.key.encode(), upload.initiated))

    def _fields(self, bucket: str, key: str, upload_id: str) -> dict[str, Any]:
        path = self._folder / upload_id / "upload.json"
        fields = _read_fields(path) if _ID.fullmatch(upload_id) else None
        if fields and (fields["bucket"], fields["key"]) == (bucket, key):
            return fields
        raise S3Error("NoSuchUpload", UploadId=upload_id)

    def _check(self, upload_id: str, parts: Sequence[Part]) -> list[Path]:
        if not parts:
            raise S3Error("MalformedXML")
        numbers = [part.number for part in parts]
        if numbers != sorted(set(numbers)):
            raise S3Error("InvalidPartOrder")
        paths, sizes = [], []
        for part in parts:
            path = self._folder / upload_id / f"{part.number:05}-{part.etag}"
            size = _size_of(path) if _PART.fullmatch(path.name) else None
            if size is None:
                raise S3Error("InvalidPart", PartNumber=str(part.number), ETag=part.etag)
            paths.append(path)
            sizes.append(size)
        for part, size in zip(parts[:-1], sizes, strict=False):
            if size < _MIN_PART_BYTES:
                raise S3Error("EntityTooSmall", PartNumber=str(part.number), MinSizeAllowed=str(_MIN_PART_BYTES))
        return paths


def _size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _read_fields(path: Path) -> dict[str, Any] | None:
    """None where the upload was ended meanwhile, or a power failure tore its file."""
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return fields
