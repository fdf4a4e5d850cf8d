"""One multipart upload: the client's parts in any order, one stream of the body in order.

A part is taken whole first (memory or disk), so that a part that fails its checks leaves nothing behind. Once the
first part is there it decides: a body that is no checkpoint has its parts sent on one by one as they are; any other
is encoded in order, behind the parts that came last (SETTLE_BYTES), which may still be sent again.
"""

from __future__ import annotations

import asyncio
import enum
import hashlib
import logging
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from s4weights.codec.container import LogicalETag
from s4weights.codec.types import Kind
from s4weights.proxy.checksums.plan import ChecksumPlan, check_whole
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.limits import PROBE_BYTES, SETTLE_BYTES
from s4weights.proxy.upstream.protocol import Conditions, Headers, Part, Stored

from .afterwards import logged, unheard
from .body_encoder import BodyEncoder
from .checks import check_object_size, check_part_list, check_part_sizes
from .guard import NO_CONTAINER
from .parts import ReceivedPart, receive_part, settled_parts
from .passed_upload import PassedUpload
from .put import recognise
from .store import Store, VerifiedBody
from .stored_writer import StoredWriter
from .types import PART_CHECKSUMS

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class State(enum.Enum):
    """What is known of an upload's body."""

    UNDECIDED = enum.auto()
    PASSED = enum.auto()
    ENCODED = enum.auto()
    ENDED = enum.auto()


class MultipartUpload:
    """One open upload. Its methods may run concurrently; `_turn` orders all that touches the stream."""

    def __init__(
        self,
        store: Store,
        upload_id: str,
        target: tuple[str, str],
        headers: Headers,
        plan: ChecksumPlan | None = None,
    ) -> None:
        self.upload_id = upload_id
        self.plan = plan
        self.target = target
        self.headers = headers
        self.initiated = datetime.now(UTC)
        self.received: dict[int, ReceivedPart] = {}
        self.state = State.UNDECIDED
        self.calls = 0
        """Parts that are being sent."""
        self._store = store
        self._turn = asyncio.Lock()
        self._taken: list[ReceivedPart] = []
        self._taking: ReceivedPart | None = None
        self._fed_bytes = 0
        self._passed: PassedUpload | None = None
        self._encoder: BodyEncoder | None = None
        self._writer: StoredWriter | None = None
        self._held_bytes = 0
        self._ebbing: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        # From when the client has asked for the end: the stream gets no other parts any more.
        self._chosen: list[ReceivedPart] | None = None
        self._sealed: LogicalETag | None = None
        self._working: set[asyncio.Task[Any]] = set()

    async def put_part(self, number: int, body: VerifiedBody, length: int) -> Part:
        """Take one part; a number that was there already is replaced."""
        self._check_open()
        self.calls += 1
        try:
            return await self._put_part(number, body, length)
        finally:
            self.calls -= 1

    async def _put_part(self, number: int, body: VerifiedBody, length: int) -> Part:
        if self._passed is not None:
            part = await self._passed.put_part(number, body, length)
        else:
            part = await receive_part(self._store, number, body, length)
        await self._work(self._accept(part))
        return Part(number, part.etag, part.size, part.last_modified, part.checksums)

    async def complete(
        self, parts: Sequence[Part], conditions: Conditions | None, announced: Headers | None = None
    ) -> Stored:
        """Make the object visible, from just these parts. A refusal leaves the upload open.

        announced: headers with the checksum and the size that the object must have.
        """
        return await self._work(self._complete(parts, conditions, announced or {}))

    async def abort(self) -> None:
        """Drop everything; the object at the key stays as it was."""
        await self._work(self._abort())

    async def relieve(self) -> None:
        """Others wait for memory: move what an idle upload holds to disk."""
        if self._turn.locked() or not self._held_bytes:
            return
        async with self._turn:
            try:
                if self._writer is not None:
                    await self._writer.settle()
                    await self._writer.park()
            except Exception as error:  # such as a full disk: what is held stays in memory, the others are still asked
                _log.warning("upload of %s/%s keeps its memory: %r", *self.target, error)
                return
            self._release(0)

    async def _work(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run to the end even where the client goes away: the stream must not stop between two bytes."""

        async def in_turn() -> _T:
            async with self._turn:
                return await work

        task = asyncio.create_task(in_turn())
        self._working.add(task)  # the loop itself would let it go once nobody waits for it
        task.add_done_callback(self._working.discard)
        task.add_done_callback(unheard)
        return await asyncio.shield(task)

    def _check_open(self) -> None:
        if self.state is State.ENDED:
            raise S3Error("NoSuchUpload", UploadId=self.upload_id)
        if isinstance(self._failure, S3Error):
            raise self._failure
        if self._failure is not None:
            raise S3Error("InternalError", f"The upload cannot go on: {self._failure}", UploadId=self.upload_id)

    async def _accept(self, part: ReceivedPart) -> None:
        # In turn: a part that is being encoded must not be replaced under the encoder.
        try:
            self._check_open()
            self._register(part)
        except S3Error:
            part.drop()
            raise
        await self._advance()

    def _register(self, part: ReceivedPart) -> None:
        old = self.received.get(part.number)
        if old is not None and old in (self._chosen or self._begun()):
            same = (old.md5, old.size) == (part.md5, part.size)
            part.drop()
            if not same:
                raise S3Error(
                    "InvalidRequest",
                    f"Part {part.number} is encoded already and was now sent with other bytes; abort the upload.",
                    UploadId=self.upload_id,
                )
            return
        if old is not None:
            old.drop()
        self.received[part.number] = part

    async def _advance(self) -> None:
        if self.state is State.UNDECIDED and 1 in self.received:
            await self._decide(self.received[1])
        if self._passed is not None:
            await self._passed.send_on(self.received.values())
        elif self.state is State.ENCODED and self._chosen is None:
            settled = settled_parts(self.received, len(self._taken) + 1, SETTLE_BYTES)
            if settled:
                try:
                    await self._take(settled)
                finally:
                    self._leave_room()

    async def _decide(self, first: ReceivedPart) -> None:
        assert first.body is not None
        _, kind = await recognise(first.body.chunks(PROBE_BYTES))
        if self._store.encodes(kind, self.headers) and await self._gains(first, kind):
            self.state = State.ENCODED
            return
        self._passed = await PassedUpload.open(self._store, self.target, self.headers, kind, self.plan)
        self.state = State.PASSED

    async def _gains(self, first: ReceivedPart, kind: Kind) -> bool:
        if self._store.settings.encode_all:
            return True
        assert first.body is not None
        trial = BodyEncoder(self._store, kind)
        async with self._store.writes.hold(self._store.write_hold_bytes):
            try:
                async for chunk in first.body.chunks(PROBE_BYTES):
                    await trial.feed(chunk)
                await trial.end()
                return await trial.gains()
            finally:
                await trial.abort()

    async def _take(self, parts: Sequence[ReceivedPart]) -> None:
        """Encode the next parts of the body, if any. Where the bucket cannot be reached the next call goes on from there."""
        await self._take_room()
        with self._ended_unless(UpstreamError):
            encoder = await self._open_encoder(parts)
            await encoder.resume()
            for part in parts:
                await self._feed(encoder, part)

    @contextmanager
    def _ended_unless(self, *passing: type[Exception]) -> Iterator[None]:
        """What cannot be taken up again ends the upload."""
        try:
            yield
        except passing:
            raise
        except Exception as error:
            self._failure = error
            raise

    async def _feed(self, encoder: BodyEncoder, part: ReceivedPart) -> None:
        assert part.body is not None
        assert self._taking in (None, part), "another part is encoded in part"
        self._taking = part
        end = 0
        async for chunk in part.body.chunks():
            end += len(chunk)
            fresh = end - self._fed_bytes
            if fresh > 0:
                self._fed_bytes = end  # the encoder keeps what it is fed, whatever it raises
                await encoder.feed(chunk[-fresh:])
        self._taken.append(part)
        self._taking, self._fed_bytes = None, 0
        part.drop()

    def _begun(self) -> list[ReceivedPart]:
        """The parts that the encoder has, the last one perhaps not whole."""
        return self._taken if self._taking is None else [*self._taken, self._taking]

    async def _open_encoder(self, parts: Sequence[ReceivedPart]) -> BodyEncoder:
        if self._encoder is None:
            body = parts[0].body
            assert body is not None
            _, kind = await recognise(body.chunks(PROBE_BYTES))
            based = await self._store.lineage.begin(self.target, None)
            self._encoder = BodyEncoder(self._store, kind, based)
            self._writer = self._store.writer(self.target, self.headers, resumes=True)
            await self._encoder.commit(self._writer)
        return self._encoder

    async def _take_room(self) -> None:
        # Never wait for memory while holding some: what is held goes to disk first.
        full = self._store.write_hold_bytes
        if not self._store.writes.try_acquire(full - self._held_bytes):
            if self._writer is not None:
                await self._writer.settle()
                await self._writer.park()
            self._release(0)
            await self._store.writes.acquire(full)
        self._held_bytes = full
        if self._writer is not None:
            await self._writer.unpark()

    def _leave_room(self) -> None:
        # The client's next parts need not wait until these are in the bucket.
        if self._writer is None:
            self._release(0)
        elif self._ebbing is None or self._ebbing.done():
            self._ebbing = asyncio.create_task(self._ebb())

    async def _ebb(self) -> None:
        """Give back what is held beyond one part as soon as nothing is on its way."""
        assert self._writer is not None
        while self._held_bytes:
            await self._writer.settle()
            async with self._turn:
                if self._writer.is_settled:
                    self._release(min(self._held_bytes, self._store.settings.part_bytes))
                    break
        if self._store.writes.is_short:
            await self.relieve()  # others began to wait while this one was at work, and were told of nothing to give

    def _release(self, keep_bytes: int) -> None:
        self._store.writes.release(self._held_bytes - keep_bytes)
        self._held_bytes = keep_bytes

    async def _complete(self, parts: Sequence[Part], conditions: Conditions | None, announced: Headers) -> Stored:
        self._check_open()
        chosen = check_part_list(self.received, parts, self._begun() if self._chosen is None else ())
        checksums = self._join_checksums(chosen)
        check_whole(self.plan, announced, checksums)
        check_object_size(chosen, announced)
        if self.state is State.UNDECIDED:
            await self._decide(chosen[0])
        if self._passed is not None:
            await self._passed.send_on(self.received.values())
            passed = self._passed
            stored = await self._store.guard.replace(
                self.target, NO_CONTAINER, conditions, lambda stored: passed.complete(chosen, stored, checksums)
            )
            await self._end()
        else:
            try:
                stored = await self._finish(chosen, conditions, checksums)
            except BaseException:
                self._leave_room()
                raise
        return replace(stored, checksums=checksums)

    def _join_checksums(self, chosen: Sequence[ReceivedPart]) -> dict[str, str]:
        if self.plan is None:
            return {}
        return self.plan.join([(part.checksums[self.plan.header], part.size) for part in chosen])

    async def _finish(
        self, chosen: list[ReceivedPart], conditions: Conditions | None, checksums: dict[str, str]
    ) -> Stored:
        if self._chosen is not None and self._chosen != chosen:
            raise S3Error(
                "InvalidPart", "The upload was completed with other parts; abort it.", UploadId=self.upload_id
            )
        check_part_sizes(chosen)
        self._chosen = chosen
        await self._take(chosen[len(self._taken) :])
        assert self._encoder is not None
        with self._ended_unless(UpstreamError):
            etag = await self._seal(chosen, checksums)
        # A client that is refused may ask again, on other conditions: nothing that was done is lost.
        with self._ended_unless(S3Error, UpstreamError):
            stored = await self._encoder.finish(conditions)
        with logged("what follows a visible object failed", *self.target):
            self._store.lineage.predecessors.written(*self.target, self._encoder.encoder.totals.logical_bytes)
        await self._end()
        return Stored(str(etag), stored.headers, stored.last_modified)

    async def _seal(self, chosen: list[ReceivedPart], checksums: dict[str, str]) -> LogicalETag:
        """End the container of just these parts, once."""
        assert self._encoder is not None
        if self._sealed is not None:
            return self._sealed
        md5s = b"".join(part.md5 for part in chosen)
        etag = LogicalETag(hashlib.md5(md5s, usedforsecurity=False).digest(), len(chosen))
        await self._encoder.end()
        expected, found = sum(part.size for part in chosen), self._encoder.encoder.totals.logical_bytes
        if found != expected:
            raise S3Error("InternalError", f"Expected {expected} bytes to be encoded, found {found}.")
        if self.plan is not None:
            of_parts = [part.checksums[self.plan.header] for part in chosen]
            checksums = {**checksums, PART_CHECKSUMS: ",".join(of_parts)}
        await self._encoder.seal(etag, parts=[part.size for part in chosen], checksums=checksums)
        self._sealed = etag
        return etag

    async def _abort(self) -> None:
        if self._passed is not None and self.state is not State.ENDED:
            with logged("what was sent could not be dropped", *self.target):
                await self._passed.abort()
        await self._end()

    async def _end(self) -> None:
        self.state = State.ENDED
        for part in self.received.values():
            part.drop()
        try:
            if self._encoder is not None:
                await self._encoder.abort()
        finally:
            if self._ebbing is not None:
                self._ebbing.cancel()
            self._release(0)
