"""What is kept beside a body, in a file named by the body's inode. See ADR 0005."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from s4weights.proxy.upstream.protocol import ObjectInfo

from .durable import make_folder, sync_folder


@dataclass(frozen=True, slots=True)
class Metadata:
    """etag: without quotes. headers: as in ObjectInfo."""

    etag: str
    headers: Mapping[str, str]


# Of the request that wrote the object: S3 does not answer them with it.
_OF_REQUEST: Final = frozenset(
    {
        "x-amz-acl",
        "x-amz-checksum-algorithm",
        "x-amz-expected-bucket-owner",
        "x-amz-request-payer",
        "x-amz-tagging",
        "x-amz-tagging-directive",
    }
)


class MetadataFolder:
    """The metadata files of one bucket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, body: os.stat_result, metadata: Metadata) -> None:
        """Make metadata durable for a body that is not yet at its path."""
        make_folder(self._folder)
        fields = {
            "size": body.st_size,
            "mtime_ns": body.st_mtime_ns,
            "etag": metadata.etag,
            "headers": {name: value for name, value in metadata.headers.items() if name not in _OF_REQUEST},
        }
        path = self._path(body.st_ino)
        temporary = path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        # Without its metadata a container would be shown as it is stored: durable before the body has its name.
        sync_folder(self._folder)

    def drop(self, inode: int) -> None:
        """Forget a body that is gone."""
        self._path(inode).unlink(missing_ok=True)

    def info(self, body: os.stat_result) -> ObjectInfo:
        """What is known of a body; one that was put there by hand has an ETag made of its place and time."""
        modified = datetime.fromtimestamp(body.st_mtime_ns // 1_000_000 / 1000, UTC)
        metadata = self._read(body) or Metadata(_etag_of_place(body), {"content-type": "binary/octet-stream"})
        return ObjectInfo(body.st_size, metadata.etag, modified, metadata.headers)

    def _read(self, body: os.stat_result) -> Metadata | None:
        try:
            fields = json.loads(self._path(body.st_ino).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        # An inode may be used again: the metadata is this body's only where size and time are too.
        if (fields.get("size"), fields.get("mtime_ns")) != (body.st_size, body.st_mtime_ns):
            return None
        return Metadata(fields["etag"], fields["headers"])

    def _path(self, inode: int) -> Path:
        return self._folder / f"{inode:x}.json"


def _etag_of_place(body: os.stat_result) -> str:
    text = f"{body.st_ino}:{body.st_size}:{body.st_mtime_ns}"
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
