"""Logical sizes and ETags of listed objects, on disk in SQLite: a restart asks the bucket for none of them again."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sqlite3
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from s4weights.proxy.upstream.protocol import Entry

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
# Another number: the file is made anew.
_LAYOUT: Final = 1
_SCHEMA: Final = """
CREATE TABLE entries (
  number INTEGER PRIMARY KEY, identity BLOB UNIQUE, size INTEGER, etag TEXT, written_s INTEGER, crc INTEGER
);
"""
# One statement for many rows: a thousand statements take ten times as long. SQLite allows 999 parameters.
_FIND_ROWS: Final = 500
_FIND: Final = "SELECT identity, size, etag, written_s, crc FROM entries WHERE identity IN ({})"
# Replacing gives a row the newest number: what was looked at longest ago goes first.
_ADD: Final = "INSERT OR REPLACE INTO entries VALUES (NULL, ?, ?, ?, ?, ?)"
_DROP: Final = "DELETE FROM entries WHERE number <= (SELECT number FROM entries ORDER BY number DESC LIMIT 1 OFFSET ?)"
# So much more than is needed is dropped at once: a tenth of all rows.
_SLACK: Final = 10
_IDENTITY_BYTES: Final = 16
# Faults that a new file would have as well.
_OF_THE_DISK: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
    }
)


class Logical(NamedTuple):
    """What a listing shows of an object. etag: without quotes. written_s: when the client wrote it, where that is not when the
    bucket says; else 0.
    """

    size: int
    etag: str
    written_s: int = 0


class ListingCache:
    """One row a version of an object, named by a hash of bucket, key, version id, upstream ETag, stored size and time; the
    time tells a copy onto itself with another marker. Nothing here is ever needed: a fault of the file costs look-ups alone.
    """

    def __init__(self, path: Path, max_rows: int) -> None:
        self._path = path
        self._max_rows = max_rows
        self._rows = 0
        self._is_closed = False
        self._connection: sqlite3.Connection | None = None
        # SQLite's connection is used by this one thread.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="listing")

    async def open(self) -> None:
        """Open the file, or make it anew where it is damaged or of another layout."""
        await self._run(self._open)

    async def close(self) -> None:
        """Let the file go."""
        if self._is_closed:
            return
        await self._run(self._close)
        self._thread.shutdown()
        self._is_closed = True

    async def find(self, bucket: str, entries: Sequence[Entry]) -> Mapping[Entry, Logical]:
        """What is known of a page's entries."""
        return await self._run(lambda: self._guarded(lambda one: _find(one, bucket, entries), {})) if entries else {}

    async def add(self, bucket: str, found: Mapping[Entry, Logical]) -> None:
        """Keep what was looked up."""
        if found:
            await self._run(lambda: self._guarded(lambda one: self._add(one, bucket, found), None))

    async def _run(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _guarded(self, work: Callable[[sqlite3.Connection], _T], otherwise: _T) -> _T:
        if self._connection is None:
            return otherwise
        try:
            return work(self._connection)
        except sqlite3.Error as error:
            self._recover(error)
        return otherwise

    def _open(self) -> None:
        try:
            self._connect()
        except (sqlite3.Error, OSError) as error:
            self._recover(error)

    def _recover(self, error: sqlite3.Error | OSError) -> None:
        """Make the file anew where it is at fault, and not the disk."""
        is_disk = isinstance(error, OSError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_THE_DISK
        if is_disk:
            _log.warning("the cache of listings cannot be used: %s: %s", self._path, error)
            return
        _log.warning("the cache of listings is made anew: %s: %s", self._path, error)
        self._close()
        try:
            for suffix in ("", "-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._connect()
        except (sqlite3.Error, OSError) as failed:
            _log.warning("no cache of listings: %s: %s", self._path, failed)
            self._close()

    def _connect(self) -> None:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._connection = connection
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # in WAL mode enough that a crash damages nothing
        [(layout,)] = connection.execute("PRAGMA user_version")
        if layout == 0:
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_LAYOUT}; COMMIT;")
        elif layout != _LAYOUT:
            raise sqlite3.DatabaseError(f"expected layout {_LAYOUT}, found {layout}")
        [(fault,)] = connection.execute("PRAGMA quick_check(1)")
        if fault != "ok":
            raise sqlite3.DatabaseError(fault)
        [(self._rows,)] = connection.execute("SELECT count(*) FROM entries")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _add(self, connection: sqlite3.Connection, bucket: str, found: Mapping[Entry, Logical]) -> None:
        rows = [(_identity(bucket, entry), *known) for entry, known in found.items()]
        connection.execute("BEGIN")
        with connection:
            connection.executemany(_ADD, [(*row, _crc(*row)) for row in rows])
            self._rows += len(rows)  # or fewer, where some were replaced
            if self._rows > self._max_rows:
                connection.execute(_DROP, (self._max_rows - self._max_rows // _SLACK,))
                [(self._rows,)] = connection.execute("SELECT count(*) FROM entries")


def _find(connection: sqlite3.Connection, bucket: str, entries: Sequence[Entry]) -> dict[Entry, Logical]:
    asked = {_identity(bucket, entry): entry for entry in entries}
    names = list(asked)
    found: dict[Entry, Logical] = {}
    for start in range(0, len(names), _FIND_ROWS):
        some = names[start : start + _FIND_ROWS]
        for identity, size, etag, written_s, crc in connection.execute(_FIND.format(",".join("?" * len(some))), some):
            # SQLite's file has no checksums of its own, and clients allocate by the size that a listing shows.
            if crc == _crc(identity, size, etag, written_s):
                found[asked[identity]] = Logical(size, etag, written_s)
    return found


def _identity(bucket: str, entry: Entry) -> bytes:
    names = (bucket, entry.key, entry.version_id, entry.etag, entry.size, entry.last_modified.isoformat())
    return hashlib.blake2b(repr(names).encode(), digest_size=_IDENTITY_BYTES).digest()


def _crc(identity: bytes, size: int, etag: str, written_s: int) -> int:
    return zlib.crc32(repr((identity, size, etag, written_s)).encode())
