"""PutObject: a body that is a checkpoint becomes a container, any other streams to the bucket as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator

from s4weights.codec.container import LogicalETag
from s4weights.codec.sniff import sniff
from s4weights.codec.types import Kind
from s4weights.proxy.checksums.algorithms import TYPE_HEADER
from s4weights.proxy.checksums.plan import FULL_OBJECT
from s4weights.proxy.limits import GATHERED_WHERE_HELD_BYTES, PROBE_BYTES
from s4weights.proxy.upstream.protocol import Conditions, Headers, Stored

from .afterwards import logged
from .body_encoder import BodyEncoder
from .guard import NO_CONTAINER
from .store import Store, VerifiedBody, chain, passed_headers, sent_checksum


async def put_object(
    store: Store,
    target: tuple[str, str],
    body: VerifiedBody,
    length: int,
    headers: Headers,
    conditions: Conditions | None,
) -> Stored:
    """Store a body of length bytes at target (bucket, key); the answer's ETag is the logical one."""
    chunks = aiter(body)
    head, kind = await recognise(chunks)
    if store.encodes(kind, headers) and length:
        async with store.writes.hold(store.write_hold_bytes):
            return await _encode(store, target, body, (head, chunks), kind, length, headers, conditions)
    return await _pass_through(store, target, body, (head, chunks), kind, length, headers, conditions)


async def recognise(chunks: AsyncIterator[bytes]) -> tuple[list[bytes], Kind]:
    """Read until the kind of the body is known. Returns what was read, too."""
    head: list[bytes] = []
    async for chunk in chunks:
        head.append(chunk)
        kind = sniff(head[0] if len(head) == 1 else b"".join(head))
        if kind is not None:
            return head, kind
    return head, sniff(b"".join(head), complete=True) or Kind.UNKNOWN


async def _pass_through(
    store: Store,
    target: tuple[str, str],
    body: VerifiedBody,
    source: tuple[list[bytes], AsyncIterator[bytes]],
    kind: Kind,
    length: int,
    headers: Headers,
    conditions: Conditions | None,
) -> Stored:
    chunks = chain(*source)
    # What is small enough is kept, to be sent again where others write the same key.
    kept = b"".join([chunk async for chunk in chunks]) if length <= PROBE_BYTES else None

    async def send(stored_conditions: Conditions | None) -> Stored:
        sent = kept if kept is not None else chunks
        headers_sent = passed_headers(kind, headers)
        return await store.upstream.put(*target, sent, length, headers_sent, stored_conditions, sent_checksum(body))

    stored = await store.guard.replace(target, NO_CONTAINER, conditions, send, once=kept is None)
    with logged("what follows a visible object failed", *target):
        store.metrics.object_written(length, length, "passed-through")
    return stored


async def _encode(
    store: Store,
    target: tuple[str, str],
    body: VerifiedBody,
    source: tuple[list[bytes], AsyncIterator[bytes]],
    kind: Kind,
    length: int,
    headers: Headers,
    conditions: Conditions | None,
) -> Stored:
    raw: list[bytes] = []
    raw_bytes = 0
    committed = False
    encoder = BodyEncoder(store, kind, await store.lineage.begin(target, length))
    try:
        chunks = chain(*source)
        async for chunk in chunks:
            await encoder.feed(chunk)
            if committed:
                continue
            raw.append(chunk)
            raw_bytes += len(chunk)
            if raw_bytes >= PROBE_BYTES:
                if not (store.settings.encode_all or await encoder.gains()):
                    return await _pass_through(store, target, body, (raw, chunks), kind, length, headers, conditions)
                await encoder.commit(store.writer(target, headers))
                committed = True
                raw.clear()
                body.gathered_bytes = GATHERED_WHERE_HELD_BYTES
        await encoder.end()
        etag = LogicalETag(body.md5)
        kind_of = {TYPE_HEADER: FULL_OBJECT} if body.checksums else {}
        await encoder.seal(etag, checksums={**body.checksums, **kind_of})
        if not committed:
            if not (store.settings.encode_all or await encoder.gains()):
                return await _pass_through(store, target, body, (raw, chunks), kind, length, headers, conditions)
            await encoder.commit(store.writer(target, headers))
        stored = await encoder.finish(conditions)
        with logged("what follows a visible object failed", *target):
            store.lineage.predecessors.written(*target, length)
        return Stored(str(etag), stored.headers, stored.last_modified)
    finally:
        await encoder.abort()
