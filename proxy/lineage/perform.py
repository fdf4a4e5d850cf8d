"""The protocol's steps on a real bucket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.protocol import Entry, Headers, Upstream, encryption

from .calls import Call, Commit, CopyAside, ListUnder, Look, Occupant, Put, Read, Remove, Steps

_T = TypeVar("_T")
_GONE: Final = frozenset({"NoSuchKey", "NoSuchVersion", "MethodNotAllowed"})  # the last one: a delete marker
_UNVERSIONED: Final = "null"
# Pins and tombstones are some hundred bytes.
_MAX_TEXT_BYTES: Final = 64 << 10

Looking = Callable[[str, str | None], Awaitable[Occupant | None]]
"""(key, version) -> what lies there. Raises: S3Error, UpstreamError."""
Committing = Callable[[Commit], Awaitable[bool]]


class Performer:
    """Answers the calls of steps from one bucket."""

    def __init__(self, upstream: Upstream, bucket: str, look: Looking) -> None:
        self._upstream = upstream
        self._bucket = bucket
        self._look = look

    async def run(self, steps: Steps[_T], commit: Committing | None = None) -> _T:
        """Run steps to their end. commit: answers Commit. Raises: what the steps, the bucket or commit raise."""
        try:
            call = next(steps)
            while True:
                try:
                    answer = await self._answer(call, commit)
                except Exception as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            steps.close()

    async def _answer(self, call: Call, commit: Committing | None) -> Any:
        match call:
            case Look(key, version):
                return await self._look(key, version)
            case Put(key, text):
                await self._upstream.put(self._bucket, key, text, len(text), {})
            case Read(key):
                return await self._read(key)
            case ListUnder(prefix):
                return await list_keys(self._upstream, self._bucket, prefix)
            case CopyAside(key, etag, target, version):
                return await self._copy(key, etag, target, version)
            case Remove(key):
                await self._remove(key)
            case Commit():
                assert commit is not None
                return await commit(call)
        return None

    async def _read(self, key: str) -> bytes | None:
        try:
            body = await self._upstream.get(self._bucket, key)
        except S3Error as error:
            if error.code in _GONE:
                return None
            raise
        try:
            if body.length > _MAX_TEXT_BYTES:
                raise S3Error("InternalError", f"{self._bucket}/{key}: expected a pin, found {body.length} bytes")
            return b"".join([chunk async for chunk in body.chunks])
        finally:
            await body.aclose()

    async def _copy(self, key: str, etag: str, target: str, version: str | None) -> bool:
        try:
            await self._upstream.copy(
                (self._bucket, key),
                (self._bucket, target),
                encryption(await self._headers(key, version)),
                replace=False,
                source_if_match=etag,
                source_version_id=version,
            )
        except S3Error as error:
            if error.code in _GONE or error.code == "PreconditionFailed":
                return False
            raise
        return True

    async def _headers(self, key: str, version: str | None = None) -> Headers:
        return (await self._upstream.head(self._bucket, key, version_id=version)).headers

    async def _remove(self, key: str) -> None:
        """Where the bucket keeps versions, of this one too, or they would pile up."""
        try:
            version = (await self._headers(key)).get("x-amz-version-id")
        except S3Error as error:
            if error.code in _GONE or error.status == 404:
                return
            raise
        await self._upstream.delete(self._bucket, key, version_id=None if version == _UNVERSIONED else version)


async def list_entries(upstream: Upstream, bucket: str, prefix: str = "") -> AsyncIterator[Entry]:
    """All objects with a prefix, in order."""
    after, token = "", None
    while True:
        page = await upstream.list_objects(bucket, prefix=prefix, after=after, token=token)
        for entry in page.entries:
            yield entry
        if page.next_after is None:
            return
        after, token = page.next_after, page.next_token


async def list_keys(upstream: Upstream, bucket: str, prefix: str) -> list[str]:
    """Their keys."""
    return [entry.key async for entry in list_entries(upstream, bucket, prefix)]
