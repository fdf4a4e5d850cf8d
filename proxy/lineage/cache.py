"""Stored bytes of recent containers on the local disk, so that a base is seldom read from the bucket."""

from __future__ import annotations

import logging
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from s4weights.codec.types import Buffer

from .names import Content

_log = logging.getLogger(__name__)
_PARTIAL: Final = ".partial"
_FREE_SHARE: Final = 10
# Below what any system takes in one writev.
_PIECES_A_CALL: Final = 512


class ContainerCache:
    """Files up to max_bytes in all, the ones read last kept. Survives a restart. Thread-safe.

    A cache: whatever is wrong with it is logged, and the bucket is asked instead.
    """

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        """max_bytes: None for a tenth of what is free."""
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}  # the one read last at the end

    @property
    def max_bytes(self) -> int:
        """0: nothing is kept."""
        return self._max_bytes or 0

    def open(self) -> None:
        """Find what an earlier run kept."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            files = [(path, path.stat()) for path in self._folder.iterdir() if path.is_file()]
            if self._max_bytes is None:
                found = os.statvfs(self._folder)
                held = sum(stat.st_size for _, stat in files)
                self._max_bytes = (found.f_bavail * found.f_frsize + held) // _FREE_SHARE
        except OSError as error:
            _log.warning("cache of containers is off: %s", error)
            self._max_bytes = 0
            return
        for path, stat in sorted(files, key=lambda one: one[1].st_atime):
            if path.name.endswith(_PARTIAL):
                _unlink(path)
            else:
                self._sizes[path.name] = stat.st_size
        self._make_room(0)

    def begin(self) -> CachedContainer | None:
        """A file for a container that is being written; None where nothing is kept."""
        if not self._max_bytes:
            return None
        path = self._folder / f"{uuid.uuid4().hex}{_PARTIAL}"
        try:
            return CachedContainer(self, path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            _log.warning("container is not cached: %s", error)
            return None

    def find(self, content: Content, max_depth: int) -> Path | None:
        """A kept container of that body, of at most that depth."""
        with self._lock:
            names = [name for name in self._sizes if name.startswith(f"{content}.") and _depth(name) <= max_depth]
            for name in names:
                self._sizes[name] = self._sizes.pop(name)
        return self._folder / names[0] if names else None

    def forget(self, path: Path) -> None:
        """A container that turned out to be gone, or damaged."""
        self._forget(path.name)

    def may_hold(self, more_bytes: int) -> bool:
        """Whether a container of that size is worth keeping."""
        return more_bytes <= self.max_bytes // 2

    def _keep(self, path: Path, content: Content, depth: int, size: int) -> None:
        name = f"{content}.{depth}"
        self._make_room(size)
        path.replace(self._folder / name)
        with self._lock:
            self._sizes.pop(name, None)
            self._sizes[name] = size

    def _make_room(self, more_bytes: int) -> None:
        while True:
            with self._lock:
                if not self._sizes or sum(self._sizes.values()) + more_bytes <= self.max_bytes:
                    return
                name = next(iter(self._sizes))
            self._forget(name)

    def _forget(self, name: str) -> None:
        with self._lock:
            self._sizes.pop(name, None)
        _unlink(self._folder / name)


class CachedContainer:
    """A container on its way into the cache.

    Its threads outlive a client that goes away: one that closed the file under another would have it write to whatever gets
    the same descriptor next.
    """

    def __init__(self, cache: ContainerCache, path: Path, file: int) -> None:
        """file: a descriptor, which is closed here."""
        self._cache = cache
        self._path = path
        self._file = file
        self._using = threading.RLock()
        self._close: Callable[[], object] | None = weakref.finalize(self, os.close, file)
        self.stored_bytes = 0

    def write(self, pieces: Sequence[Buffer]) -> None:
        """The next stored bytes."""
        with self._using:
            self.stored_bytes += sum(map(len, pieces))
            if self._close is None:
                return
            if not self._cache.may_hold(self.stored_bytes):
                self.drop()
                return
            try:
                for at in range(0, len(pieces), _PIECES_A_CALL):
                    _write_all(self._file, pieces[at : at + _PIECES_A_CALL])
            except OSError as error:
                _log.warning("container is not cached: %s", error)
                self.drop()

    def read(self, start: int, length: int) -> bytes | None:
        """Stored bytes written before; None where they were not kept."""
        with self._using:
            if self._close is None:
                return None
            data = os.pread(self._file, length, start)
        return data if len(data) == length else None

    def keep(self, content: Content, depth: int) -> None:
        """The container is whole, and visible in the bucket."""
        if not self._end():
            return
        try:
            self._cache._keep(self._path, content, depth, self.stored_bytes)
        except OSError as error:
            _log.warning("container is not cached: %s", error)
            _unlink(self._path)

    def drop(self) -> None:
        """It came to nothing. Harmless after keep."""
        if self._end():
            _unlink(self._path)

    def _end(self) -> bool:
        with self._using:
            close, self._close = self._close, None
            if close is not None:
                close()
        return close is not None


def _write_all(file: int, pieces: Sequence[Buffer]) -> None:
    written = os.writev(file, pieces)
    for piece in pieces:
        rest = memoryview(piece)[written:]
        written = max(0, written - len(piece))
        while rest:
            rest = rest[os.write(file, rest) :]


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("cached container cannot be removed: %s", error)


def _depth(name: str) -> int:
    text = name.rpartition(".")[2]
    return int(text) if text.isdigit() else 1 << 30
