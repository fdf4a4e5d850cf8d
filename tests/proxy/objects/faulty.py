"""A real directory that fails on purpose: what a bucket over a network does now and then."""

from __future__ import annotations

from collections.abc import AsyncIterator

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import ObjectBody


class FaultyUpstream(DirectoryUpstream):
    """Counts of faults still to come; each call uses one up."""

    unreachable_completes = 0
    lost_completes = 0
    unanswered_completes = 0
    _was_unanswered = False
    unreachable_puts = 0
    broken_gets = 0
    refused_gets: str = ""
    ignores_ranges = False

    @staticmethod
    def fails() -> bool:
        """Whether the bucket is out of reach for an upload, or for a part of one."""
        return False

    async def complete_upload(self, *arguments, **options):
        if self.unreachable_completes:
            self.unreachable_completes -= 1
            raise UpstreamError("no answer")
        if self._was_unanswered:
            # S3 compares conditions before it looks for the upload.
            self._was_unanswered = False
            raise S3Error("PreconditionFailed")
        stored = await super().complete_upload(*arguments, **options)
        if self.lost_completes:
            # The client library repeats a call whose answer was lost; the second one finds no upload.
            self.lost_completes -= 1
            raise S3Error("NoSuchUpload")
        if self.unanswered_completes:
            self.unanswered_completes -= 1
            self._was_unanswered = True
            raise UpstreamError("no answer")
        return stored

    async def create_upload(self, *arguments, **options):
        self._fail()
        return await super().create_upload(*arguments, **options)

    async def put_part(self, *arguments, **options):
        self._fail()
        return await super().put_part(*arguments, **options)

    def _fail(self) -> None:
        if self.fails():
            raise UpstreamError("no answer")

    async def put(self, *arguments, **options):
        if self.unreachable_puts:
            self.unreachable_puts -= 1
            raise UpstreamError("no answer")
        return await super().put(*arguments, **options)

    async def get(self, *arguments, **options) -> ObjectBody:
        if self.refused_gets:
            raise S3Error(self.refused_gets)
        if self.ignores_ranges:
            options.pop("byte_range", None)
        body = await super().get(*arguments, **options)
        if self.broken_gets:
            self.broken_gets -= 1
            body.chunks = _broken(body.chunks, body.length)
        return body


async def _broken(chunks: AsyncIterator[bytes], length: int) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield chunk[: length // 2]
        break
    raise UpstreamError("connection reset")
