"""What this proxy has left open upstream, on disk, so that the next start can abort it."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from s4weights.codec.errors import ConfigError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """One multipart upload that we began upstream. record: its file."""

    record: Path
    bucket: str
    key: str
    upload_id: str


@dataclass(frozen=True, slots=True)
class AskedUpload:
    """One whose beginning was asked for, at asked_s (since the epoch), and perhaps never answered. record: its file."""

    record: Path
    bucket: str
    key: str
    asked_s: float


class Journal:
    """The state directory: one record an upstream upload asked for or open, and the spilled parts. One proxy a directory."""

    def __init__(self, state_dir: Path) -> None:
        self._uploads = state_dir / "uploads"
        self.spill_dir = state_dir / "spill"
        self._state_dir = state_dir
        self._lock: int | None = None
        self._worked_on: set[Path] = set()

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

    def ask(self, bucket: str, key: str) -> AskedUpload:
        """Record that an upload is about to be begun."""
        asked = AskedUpload(self._new_record("asked"), bucket, key, time.time())
        self._write(asked.record, {"bucket": bucket, "key": key, "asked_s": asked.asked_s})
        return asked

    def add(self, bucket: str, key: str, upload_id: str) -> OpenUpload:
        """Record an upload before its first part is sent."""
        upload = OpenUpload(self._new_record("json"), bucket, key, upload_id)
        self._write(upload.record, {"bucket": bucket, "key": key, "upload_id": upload_id})
        return upload

    def remove(self, upload: OpenUpload | AskedUpload) -> None:
        """Forget an upload that is completed or aborted, or a question that was answered."""
        try:
            upload.record.unlink(missing_ok=True)
        finally:
            self._worked_on.discard(upload.record)  # where it is still there it is looked at again

    def let_go(self, upload: OpenUpload | AskedUpload) -> None:
        """Nobody works on it any more, and it may still be open upstream."""
        self._worked_on.discard(upload.record)

    def left_open(self) -> Iterator[OpenUpload]:
        """The uploads that nobody works on, of this run or an earlier one."""
        for record, fields in self._left("json"):
            yield OpenUpload(record, fields["bucket"], fields["key"], fields["upload_id"])

    def left_asked(self) -> Iterator[AskedUpload]:
        """The questions that nobody knows the answer to, of this run or an earlier one."""
        for record, fields in self._left("asked"):
            yield AskedUpload(record, fields["bucket"], fields["key"], fields["asked_s"])

    def ids(self) -> set[str]:
        """Of all uploads that stand here, whether somebody works on them or not."""
        read = (_read(record, {"upload_id"}) for record in self._uploads.glob("*.json"))
        return {fields["upload_id"] for fields in read if fields}

    def _left(self, kind: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        wanted = {"bucket", "key", "upload_id" if kind == "json" else "asked_s"}
        for record in sorted(self._uploads.glob(f"*.{kind}")):
            if record in self._worked_on:
                continue
            fields = _read(record, wanted)
            if fields:
                yield record, fields
            elif record.exists():
                # Cut off by a crash before its fsync: what it was to say was not begun either, and nothing can be named.
                _log.warning("journal record %s is unreadable and is dropped", record.name)
                record.unlink(missing_ok=True)

    def _new_record(self, kind: str) -> Path:
        return self._uploads / f"{uuid.uuid4().hex}.{kind}"

    def _write(self, record: Path, fields: dict[str, str | float]) -> None:
        self._worked_on.add(record)
        try:
            with record.open("x", encoding="utf-8") as file:
                json.dump(fields, file)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            record.unlink(missing_ok=True)
            self._worked_on.discard(record)
            raise

    def new_spill_file(self) -> Path:
        """A path for one spilled part."""
        return self.spill_dir / uuid.uuid4().hex


def _read(record: Path, wanted: set[str]) -> dict[str, Any] | None:
    """The fields of a record; None where it is gone, or not whole."""
    try:
        fields = json.loads(record.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return fields if isinstance(fields, dict) and wanted <= fields.keys() else None
