"""From a key to the object as the client knows it: one upstream call gives headers, trailer and mostly the index."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from s4weights.codec.container import HEADER_BYTES, TRAILER_BYTES, Index, Trailer, looks_like_trailer, parse_index
from s4weights.codec.decode import Tail, read_tail
from s4weights.codec.errors import FormatError
from s4weights.proxy.errors import UpstreamError
from s4weights.proxy.limits import INDEX_CACHE_BYTES, TAIL_WITH_INDEX_BYTES
from s4weights.proxy.upstream.protocol import ByteRange, ObjectInfo, Upstream

from .about import read_checksums, read_part_checksums, read_parts
from .cut_off import check_start, damaged, may_be_cut_off
from .fetch import fetch, retried
from .lru import LRU
from .marker import client_time, is_container, without_marker
from .types import LogicalObject

# A parsed index costs about this a frame in memory.
_INDEX_FRAME_BYTES = 128


class Resolver:
    """Finds what an object is from its marker and its trailer, never from its ETag or its name."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._indexes: LRU[tuple[str, str, str], Index] = LRU(INDEX_CACHE_BYTES)

    async def resolve(self, bucket: str, key: str, *, version_id: str | None = None) -> LogicalObject:
        """The object with its index. Raises: S3Error, UpstreamError."""
        found = await self.resolve_briefly(bucket, key, version_id=version_id, last_bytes=TAIL_WITH_INDEX_BYTES)
        return await self.with_index(found)

    async def resolve_surely(self, bucket: str, key: str) -> LogicalObject:
        """As `resolve`; what is none of ours by its marker and its end is looked at where it begins as well: one more call.

        Raises: S3Error, also where that shows a container that was cut off; UpstreamError.
        """
        return await self.look_at_start(await self.resolve(bucket, key))

    async def look_at_start(self, found: LogicalObject) -> LogicalObject:
        """The same object, which does not begin as a container where it is none. Raises: as resolve_surely."""
        if may_be_cut_off(found) and len(found.last_bytes) < found.stored.size:
            check_start(found, await fetch(self._upstream, found, 0, HEADER_BYTES))
        return found

    async def with_index(self, found: LogicalObject) -> LogicalObject:
        """An object that was found briefly. Raises: S3Error PreconditionFailed where it is another one by now."""
        if found.tail is None:
            return found
        index = found.tail.index or await self._load_index(found, found.tail)
        parts = read_parts(index.about, found.info.size)
        return replace(
            found,
            tail=Tail(found.tail.trailer, index),
            parts=parts,
            checksums=read_checksums(index.about),
            part_checksums=read_part_checksums(index.about, len(parts)),
        )

    async def resolve_briefly(
        self, bucket: str, key: str, *, version_id: str | None = None, last_bytes: int = TRAILER_BYTES
    ) -> LogicalObject:
        """Size, ETag and headers; the index only where it lies within the last bytes."""
        stored, start, end = await retried(lambda: self._read_end(bucket, key, version_id, last_bytes))
        tail = _read_tail(f"{bucket}/{key}", stored, end)
        found = LogicalObject(
            bucket=bucket,
            key=key,
            info=_logical_info(stored, tail),
            stored=stored,
            tail=tail,
            last_bytes=b"" if tail else end,
            version_id=version_id,
        )
        check_start(found, start)
        return found

    async def _read_end(
        self, bucket: str, key: str, version_id: str | None, last_bytes: int
    ) -> tuple[ObjectInfo, bytes, bytes]:
        """What it is, its first bytes where they are known, and its last ones."""
        body = await self._upstream.get(bucket, key, byte_range=ByteRange(-last_bytes), version_id=version_id)
        try:
            if body.length > last_bytes:
                # A server that ignores ranges; the whole object would fill the memory.
                raise UpstreamError(f"{bucket}/{key}: expected the last {last_bytes} bytes, found {body.length}")
            end = b"".join([chunk async for chunk in body.chunks])
            return body.info, body.start or (end if len(end) == body.info.size else b""), end
        finally:
            await body.aclose()

    async def _load_index(self, found: LogicalObject, tail: Tail) -> Index:
        identity = (found.bucket, found.key, found.stored.etag)
        index = self._indexes.get(identity)
        if index is None:
            trailer = tail.trailer
            data = await fetch(self._upstream, found, trailer.index_offset, trailer.index_bytes)
            try:
                index = await asyncio.to_thread(parse_index, data, trailer)
            except FormatError as error:
                raise damaged(found.path, error) from error
            self._indexes.put(identity, index, len(index) * _INDEX_FRAME_BYTES)
        return index


def _read_tail(path: str, stored: ObjectInfo, end: bytes) -> Tail | None:
    marked = is_container(stored.headers)
    if marked is False or (marked is None and not looks_like_trailer(end)):
        return None
    try:
        return read_tail(end, object_bytes=stored.size)
    except FormatError as error:
        if marked is None and not _has_trailer(stored, end):
            return None
        raise damaged(path, error) from error


def _has_trailer(stored: ObjectInfo, end: bytes) -> bool:
    """Whether a right trailer names this very size: without its marker such an object is a container all the same."""
    try:
        Trailer.parse(end, object_bytes=stored.size)
    except FormatError:
        return False
    return True


def _encoding(value: str) -> dict[str, str]:
    """An object's own encoding: some servers keep aws-chunked, which is that of the transfer, beside it."""
    kept = [item.strip() for item in value.split(",") if item.strip() and item.strip().lower() != "aws-chunked"]
    return {"content-encoding": ",".join(kept)} if kept else {}


def _logical_info(stored: ObjectInfo, tail: Tail | None) -> ObjectInfo:
    headers = without_marker(stored.headers)
    if "content-encoding" in headers:
        headers |= _encoding(headers.pop("content-encoding"))
    if tail is None:
        return replace(stored, headers=headers)
    trailer = tail.trailer
    headers = {name: value for name, value in headers.items() if not name.startswith("x-amz-checksum-")}
    # A container that `s4weights pack` wrote has no ETag of S3's making; its digest identifies the body as well.
    etag = str(trailer.etag) if trailer.etag else trailer.digest.hex()
    return ObjectInfo(trailer.logical_bytes, etag, client_time(stored), headers)
