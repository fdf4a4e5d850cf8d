"""A file object of the caller's as stored bytes."""

from __future__ import annotations

import os
from threading import Lock
from typing import BinaryIO


class ObjectBytes:
    """A seekable file object from where it stands to its end; it stays its owner's."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._first = file.tell()
        self._lock = Lock()
        self.size = file.seek(0, os.SEEK_END) - self._first
        file.seek(self._first)

    def read(self, start: int, length: int) -> bytes:
        """See Stored (bodies.py)."""
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
