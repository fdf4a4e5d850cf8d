"""Every write and removal of an object goes through here: what it takes the place of may be somebody's base."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from s4weights.codec.errors import FormatError
from s4weights.proxy.errors import S3Error
from s4weights.proxy.lineage.calls import Commit, NewObject, Occupant, Steps
from s4weights.proxy.lineage.perform import Performer
from s4weights.proxy.lineage.protocol import Contended, beside, replace
from s4weights.proxy.upstream.protocol import NO_CONDITIONS, Conditions, Headers, Stored, Upstream, names_etag

from .occupants import occupant_of
from .resolve import Resolver

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
NO_CONTAINER: Final = NewObject()
_ABSENT: Final = frozenset({"NoSuchKey", "NoSuchVersion", "MethodNotAllowed"})  # the last one: a delete marker
_CHANGED: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict"})
_MOST_ALIKE: Final = 3
_LOOKS: Final = 4
# An object that cannot be looked at (its class, its key, our rights) has no ETag to hold it to.
_UNKNOWN: Final = ""

Gone = Callable[[str, str, Occupant], None]
"""(bucket, key, what was there): a container that others may need has lost its place."""


class Guard:
    """The protocol of lineage/protocol.py for the objects of clients."""

    def __init__(self, upstream: Upstream, resolver: Resolver) -> None:
        self.upstream = upstream
        self.resolver = resolver
        self._conditional = True
        self.on_gone: Gone | None = None

    async def run(self, bucket: str, steps: Steps[_T], *, surely: bool = False) -> _T:
        """Steps that commit nothing. surely: as for look."""
        return await self._performer(bucket, surely=surely).run(steps)

    async def look(self, bucket: str, key: str, version: str | None = None, *, surely: bool = False) -> Occupant | None:
        """What lies there. surely: what may be a container that was cut off is looked at where it begins, by one call more.

        Raises: S3Error NoSuchBucket, ServiceUnavailable; UpstreamError.
        """
        for _ in range(_LOOKS):
            try:
                found = await self.resolver.resolve_briefly(bucket, key, version_id=version)
                if surely:
                    await self.resolver.look_at_start(found)
                return occupant_of(await self.resolver.with_index(found), by_version=version is not None)
            except S3Error as error:
                if error.code in _ABSENT:
                    return None
                if error.code == "NoSuchBucket":
                    raise
                if error.code in _CHANGED:
                    continue  # between its end and its index
                _log.debug("%s/%s cannot be looked at: %s", bucket, key, error)
            except FormatError as error:
                _log.warning("%s/%s names no bases as it should: %s", bucket, key, error)
            return Occupant(_UNKNOWN, is_known=False)
        raise S3Error("ServiceUnavailable", "Others write this key at the same time.", Key=key)

    async def replace(
        self,
        target: tuple[str, str],
        new: NewObject,
        conditions: Conditions | None,
        commit: Callable[[Conditions | None], Awaitable[Stored]],
        *,
        once: bool = False,
    ) -> Stored:
        """Make an object visible at target (bucket, key), by commit, as long as what is there is what was seen there.

        conditions: the client's own, of stored ETags. once: commit can be called only once.
        Raises: S3Error ServiceUnavailable where others write the same key all the time; what commit raises.
        """
        bucket, key = target
        answers: list[Stored] = []
        lost: list[str | None] = []

        async def committing(call: Commit) -> bool:
            # A key that looks the same each time is not what others write: the bucket's conditions are about something
            # else, such as a folder that SeaweedFS sees in `a/` where there is no object.
            does_agree = lost[-_MOST_ALIKE:] != [call.seen] * _MOST_ALIKE
            lost.append(call.seen)
            return await self._commit(
                call, conditions or NO_CONDITIONS, commit, answers, once=once, does_agree=does_agree
            )

        steps = replace(key, new, attempts=1) if once else replace(key, new)
        old = await self._perform(bucket, key, steps, committing)
        self._tell(bucket, key, old, new)
        return answers[0]

    async def remove(
        self, target: tuple[str, str], version: str | None, headers: Headers, *, if_match: str | None = None
    ) -> Headers:
        """Remove the object at target, or one version of it. Returns S3's answer headers.

        if_match: the stored ETag that it must have. Raises: S3Error PreconditionFailed.
        """
        bucket, key = target
        answers: list[Headers] = []

        async def committing(call: Commit) -> bool:
            if if_match is not None and call.seen != if_match:
                raise S3Error("PreconditionFailed", Condition="If-Match")
            conditions = None if version is not None or not call.seen else Conditions(if_match=f'"{call.seen}"')
            try:
                answers.append(
                    await self.upstream.delete(
                        bucket, key, version_id=version, headers=headers, conditions=self._usable(conditions)
                    )
                )
            except S3Error as error:
                if error.code in _CHANGED and conditions is not None:
                    return False
                if error.code == "NotImplemented" and self._usable(conditions) is not None:
                    self._do_without()
                    return False
                raise
            return True

        old = await self._perform(bucket, key, replace(key, None, version=version), committing)
        self._tell(bucket, key, old, None)
        return answers[0]

    async def beside(self, target: tuple[str, str], call: Callable[[], Awaitable[_T]]) -> _T:
        """Make a call of the client's own that may put another object at target (bucket, key)."""
        bucket, key = target
        answers: list[_T] = []

        async def committing(_: Commit) -> bool:
            answers.append(await call())
            return True

        await self._perform(bucket, key, beside(key), committing)
        return answers[0]

    async def _perform(
        self, bucket: str, key: str, steps: Steps[_T], committing: Callable[[Commit], Awaitable[bool]]
    ) -> _T:
        try:
            return await self._performer(bucket).run(steps, committing)
        except Contended:
            raise S3Error("ServiceUnavailable", "Others write this key at the same time.", Key=key) from None

    async def _commit(
        self,
        call: Commit,
        asked: Conditions,
        commit: Callable[[Conditions | None], Awaitable[Stored]],
        answers: list[Stored],
        *,
        once: bool,
        does_agree: bool,
    ) -> bool:
        is_ours = asked.asks_for_nothing()
        if is_ours and not does_agree:
            answers.append(await commit(None))
            return True
        narrowed = _narrowed(asked, call.seen)
        # A client's own stay: a bucket that knows none says so itself.
        conditions = self._usable(narrowed) if is_ours else narrowed
        try:
            answers.append(await commit(conditions))
        except S3Error as error:
            if not is_ours or conditions is None or type(error) is not S3Error:
                raise
            if error.code == "NotImplemented" and not once:
                self._do_without()
                return False
            if error.code in _CHANGED:
                return False
            raise
        return True

    def _performer(self, bucket: str, *, surely: bool = False) -> Performer:
        return Performer(self.upstream, bucket, lambda key, version: self.look(bucket, key, version, surely=surely))

    def _usable(self, conditions: Conditions | None) -> Conditions | None:
        return conditions if self._conditional else None

    def _do_without(self) -> None:
        _log.warning("the bucket knows no conditional writes: two that meet at one key are not told apart")
        self._conditional = False

    def _tell(self, bucket: str, key: str, old: Occupant | None, new: NewObject | None) -> None:
        if old is None or old.content is None or old.version is not None or self.on_gone is None:
            return
        if new is None or new.content != old.content:
            self.on_gone(bucket, key, old)


def _narrowed(asked: Conditions, seen: str | None) -> Conditions:
    """Conditions under which a write takes the place of just what was seen. Raises: S3Error PreconditionFailed."""
    if seen is None:
        if asked.if_match is not None:
            return asked  # the bucket's own answer
        return dataclasses.replace(asked, if_none_match="*")
    if asked.if_none_match is not None and asked.if_none_match.strip() == "*":
        return asked
    if seen == _UNKNOWN:
        return asked
    if asked.if_match is not None and not names_etag(asked.if_match, seen):
        raise S3Error("PreconditionFailed", Condition="If-Match")
    if asked.if_none_match is not None and names_etag(asked.if_none_match, seen):
        raise S3Error("PreconditionFailed", Condition="If-None-Match")
    return dataclasses.replace(asked, if_match=f'"{seen}"', if_none_match=None)
