"""Stored bytes that can be read anywhere: a file, an open file object, ..."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Protocol


class StoredBytes(Protocol):
    """Thread-safe. size: in bytes."""

    size: int

    def read(self, start: int, length: int) -> bytes:
        """Fewer bytes only behind the end. Raises: OSError."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class FileBytes:
    """A file by its path."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.size = os.fstat(self._file.fileno()).st_size

    def read(self, start: int, length: int) -> bytes:
        """See StoredBytes."""
        return os.pread(self._file.fileno(), length, start)

    def close(self) -> None:
        """See StoredBytes."""
        self._file.close()


class ObjectBytes:
    """A seekable file object from where it stands to its end; it stays its owner's."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._first = file.tell()
        self._lock = Lock()
        self.size = file.seek(0, os.SEEK_END) - self._first
        file.seek(self._first)

    def read(self, start: int, length: int) -> bytes:
        """See StoredBytes."""
        pieces: list[bytes] = []
        with self._lock:
            self._file.seek(self._first + start)
            while length and (piece := self._file.read(length)):
                pieces.append(piece)
                length -= len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Put the file object back to where it stood."""
        self._file.seek(self._first)
