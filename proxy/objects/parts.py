"""One client part, whole and verified, in memory or on disk until its turn comes."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from io import FileIO
from pathlib import Path

from s4weights.codec.types import Buffer
from s4weights.proxy.checksums.algorithms import encode, new_hasher
from s4weights.proxy.limits import GATHERED_BYTES, GATHERED_WHERE_HELD_BYTES, MAX_MEMORY_PART_BYTES, MIB
from s4weights.proxy.threads import in_thread

from .afterwards import logged
from .store import Store, VerifiedBody


class PartBody:
    """The bytes of a part. They stay until `drop`."""

    def __init__(self, store: Store, size: int) -> None:
        self.size = size
        self._store = store
        self._chunks: list[bytes] = []
        self._in_memory = size <= MAX_MEMORY_PART_BYTES and store.parts.try_acquire(size)
        self._path: Path | None = None if self._in_memory else store.journal.new_spill_file()

    async def fill(self, body: AsyncIterator[bytes]) -> None:
        """Take the whole part; an error of the body leaves nothing behind."""
        try:
            if self._path is None:
                self._chunks = [chunk async for chunk in body]
            else:
                self._store.metrics.part_spilled(self.size)
                await self._spill(body, self._path)
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Give the memory or the file back."""
        self._chunks.clear()
        if self._in_memory:
            self._store.parts.release(self.size)
            self._in_memory = False
        if self._path is not None:
            with logged("a spilled part stays until the next start", str(self._path)):
                self._path.unlink(missing_ok=True)

    async def chunks(self, limit: int | None = None) -> AsyncIterator[bytes]:
        """The bytes, or the first `limit` of them."""
        left = self.size if limit is None else min(limit, self.size)
        async for chunk in self._all_chunks():
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def _all_chunks(self) -> AsyncIterator[bytes]:
        if self._path is None:
            for chunk in self._chunks:
                yield chunk
            return
        path = self._path
        with await in_thread(lambda: path.open("rb", buffering=0), undo=_close) as file:
            while chunk := await in_thread(partial(file.read, MIB)):
                yield chunk

    async def _spill(self, body: AsyncIterator[bytes], path: Path) -> None:
        await in_thread(lambda: path.touch(exist_ok=False))
        async for chunk in body:
            await in_thread(partial(_append, path, chunk))


def _close(file: FileIO) -> None:
    file.close()


def _append(path: Path, chunk: Buffer) -> None:
    with path.open("r+b") as file:  # not `ab`: a file that went meanwhile must not be made again
        file.seek(0, os.SEEK_END)
        file.write(chunk)


@dataclass(slots=True)
class ReceivedPart:
    """What an upload knows of one part. body: None once it was encoded or sent on. stored_etag: the upstream's."""

    number: int
    md5: bytes
    size: int
    checksums: Mapping[str, str] = field(default_factory=dict)
    last_modified: datetime = field(default_factory=lambda: datetime.now(UTC))
    body: PartBody | None = None
    stored_etag: str | None = None

    @property
    def etag(self) -> str:
        """The ETag that the client was given."""
        return self.md5.hex()

    def drop(self) -> None:
        """Forget the bytes."""
        if self.body is not None:
            self.body.drop()
            self.body = None


def settled_parts(received: Mapping[int, ReceivedPart], first: int, behind_bytes: int) -> list[ReceivedPart]:
    """The parts in order from number first on that have behind_bytes of others, without a gap, behind them."""
    ahead: list[ReceivedPart] = []
    while first + len(ahead) in received:
        ahead.append(received[first + len(ahead)])
    behind = sum(part.size for part in ahead)
    settled: list[ReceivedPart] = []
    for part in ahead:
        behind -= part.size
        if behind < behind_bytes:
            break
        settled.append(part)
    return settled


async def receive_part(store: Store, number: int, body: VerifiedBody, size: int) -> ReceivedPart:
    """Read one part to its verified end."""
    part_body = PartBody(store, size)
    body.gathered_bytes = GATHERED_WHERE_HELD_BYTES
    await part_body.fill(aiter(body))
    return ReceivedPart(number, body.md5, size, body.checksums, body=part_body)


class CopiedBody:
    """A body that comes from the bucket itself (UploadPartCopy), with the MD5 that a client's body would have."""

    def __init__(self, chunks: AsyncIterator[bytes], header: str | None = None) -> None:
        """header: of the checksum that the upload was begun with."""
        self._chunks = chunks
        self.gathered_bytes = GATHERED_BYTES
        self._hasher = new_hasher(header) if header else None
        self.md5 = hashlib.md5(usedforsecurity=False).digest()
        self.announced: Mapping[str, str | None] = {header: None} if header else {}
        self.checksums: Mapping[str, str] = {}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        md5 = hashlib.md5(usedforsecurity=False)
        self._note(md5.digest())
        async for chunk in self._chunks:
            await asyncio.to_thread(md5.update, chunk)
            if self._hasher is not None:
                await asyncio.to_thread(self._hasher.update, chunk)
            self._note(md5.digest())
            yield chunk

    def _note(self, md5: bytes) -> None:
        self.md5 = md5
        if self._hasher is not None:
            self.checksums = dict.fromkeys(self.announced, encode(self._hasher.digest()))
