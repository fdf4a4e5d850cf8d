"""What this proxy has left open upstream, on disk, so that the next start can abort it."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from s4weights.codec.errors import ConfigError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """One multipart upload that we began upstream. record: its file."""

    record: Path
    bucket: str
    key: str
    upload_id: str


class Journal:
    """The state directory: one record an open upstream upload, and the spilled parts. One proxy a directory."""

    def __init__(self, state_dir: Path) -> None:
        self._uploads = state_dir / "uploads"
        self.spill_dir = state_dir / "spill"
        self._state_dir = state_dir
        self._lock: int | None = None

    def open(self) -> None:
        """Take the directory and drop the spilled parts of an earlier run. Raises: ConfigError."""
        self._uploads.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._state_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = None
            raise ConfigError(f"state directory {self._state_dir}: another s4weights is using it") from None
        shutil.rmtree(self.spill_dir, ignore_errors=True)
        self.spill_dir.mkdir()

    def close(self) -> None:
        """Let the directory go."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def add(self, bucket: str, key: str, upload_id: str) -> OpenUpload:
        """Record an upload before its first part is sent."""
        record = self._uploads / f"{uuid.uuid4().hex}.json"
        with record.open("x", encoding="utf-8") as file:
            json.dump({"bucket": bucket, "key": key, "upload_id": upload_id}, file)
            file.flush()
            os.fsync(file.fileno())
        return OpenUpload(record, bucket, key, upload_id)

    def remove(self, upload: OpenUpload) -> None:
        """Forget an upload that is completed or aborted."""
        upload.record.unlink(missing_ok=True)

    def left_open(self) -> Iterator[OpenUpload]:
        """The uploads that an earlier run did not end."""
        for record in sorted(self._uploads.glob("*.json")):
            try:
                fields = json.loads(record.read_text(encoding="utf-8"))
                yield OpenUpload(record, fields["bucket"], fields["key"], fields["upload_id"])
            except (ValueError, KeyError, TypeError):
                # Cut off by a crash before its fsync: then no part was sent either, and nothing can be named.
                _log.warning("journal record %s is unreadable and is dropped", record.name)
                record.unlink(missing_ok=True)

    def new_spill_file(self) -> Path:
        """A path for one spilled part."""
        return self.spill_dir / uuid.uuid4().hex
