"""CopyObject on the bucket's side: what the source needs is pinned for the copy as well."""

from __future__ import annotations

from s4weights.codec.container import read_bases
from s4weights.proxy.errors import S3Error
from s4weights.proxy.lineage.calls import Need, NewObject, Occupant
from s4weights.proxy.lineage.protocol import copy_needs, is_refusal, unclaim
from s4weights.proxy.upstream.carried import copied_tags, inherited
from s4weights.proxy.upstream.protocol import Conditions, Headers, Stored

from .guard import NO_CONTAINER, Guard
from .marker import container_marker, kept_marker
from .occupants import occupant_of
from .parts import CopiedBody
from .put import put_object
from .read import read_object
from .store import Store
from .types import LogicalObject


async def copy_object(
    guard: Guard,
    source: LogicalObject,
    target: tuple[str, str],
    headers: Headers,
    conditions: Conditions | None,
    *,
    replace: bool,
) -> Stored:
    """Copy the source to target (bucket, key). conditions: of stored ETags. replace: headers are the copy's own.

    A source that needs other bodies is copied within its bucket only: the caller sees to it.
    Raises: S3Error PreconditionFailed where the source is another one by now.
    """
    if replace:
        marker = kept_marker(source.stored.headers) or (container_marker() if source.is_container else {})
        headers = {**headers, **marker}

    async def copy(stored_conditions: Conditions | None) -> Stored:
        try:
            return await guard.upstream.copy(
                (source.bucket, source.key),
                target,
                headers,
                replace=replace,
                source_if_match=source.stored.etag,
                source_version_id=source.version_id,
                conditions=stored_conditions,
            )
        except S3Error as error:
            if error.code == "PreconditionFailed" and await _has_changed(guard, source):
                raise SourceChanged from None
            raise

    there = occupant_of(source)
    if source.tail is None:
        return await guard.replace(target, NO_CONTAINER, conditions, copy)
    needs = await _pinned(guard, source, there, target)
    try:
        return await guard.replace(target, NewObject(there.content, there.depth, needs), conditions, copy)
    except S3Error as error:
        if is_refusal(error):
            await guard.run(target[0], unclaim(needs, target[1]))
        raise


def depends_on_others(source: LogicalObject) -> bool:
    """Whether an object can be read only where its bases are. source: with its index."""
    return source.tail is not None and source.tail.index is not None and bool(read_bases(source.tail.index.about))


async def write_anew(
    store: Store,
    source: LogicalObject,
    target: tuple[str, str],
    headers: Headers,
    conditions: Conditions | None,
    *,
    replace: bool,
) -> Stored:
    """A copy in another bucket: its body passes here, since its bases are not there."""
    if not replace:
        headers = {**inherited(source.info.headers), **headers}
    headers = await copied_tags(
        headers, lambda: store.upstream.tags(source.bucket, source.key, version_id=source.version_id)
    )
    body = CopiedBody(read_object(store, source, 0, source.info.size))
    return await put_object(store, target, body, source.info.size, headers, conditions)


class SourceChanged(S3Error):
    """The source was overwritten since it was looked up."""

    def __init__(self) -> None:
        super().__init__("PreconditionFailed", Condition="x-amz-copy-source-If-Match")


async def _has_changed(guard: Guard, source: LogicalObject) -> bool:
    now = await guard.look(source.bucket, source.key, source.version_id)
    return now is None or now.etag != source.stored.etag


async def _pinned(guard: Guard, source: LogicalObject, there: Occupant, target: tuple[str, str]) -> tuple[Need, ...]:
    needs = await guard.run(target[0], copy_needs(source.key, there, target[1], version=source.version_id))
    if needs is None:
        raise SourceChanged
    return needs
