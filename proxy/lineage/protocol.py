"""A base never goes while an object needs it: pins, tombstones and hidden bases, on plain S3 calls.

A writer pins first and then looks for tombstones; a remover sets its tombstone first and then lists pins. With a bucket
that is consistent (S3 is) at least one of the two sees the other: the writer gives the base up, or the remover keeps a copy
aside. No lock, no database, any number of proxies. A process may die after any call: what stays behind is a pin, a tombstone
or a copy too many, which `gc` takes away.

Everything here is steps without I/O (calls.py); tests/proxy/lineage/test_interleavings.py runs them in every order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from s4weights.proxy.errors import S3Error, UpstreamError

from .calls import Commit, CopyAside, ListUnder, Look, Need, NewObject, Occupant, Put, Remove, Steps
from .names import (
    Content,
    hidden_depth,
    hidden_key,
    hidden_of,
    is_pin_of,
    new_nonce,
    pin_key,
    pin_text,
    pins_of,
    tomb_key,
    tombs_of,
)

_log = logging.getLogger(__name__)
_FORBIDDEN = 403
# Every try but the last one lost against another writer of the same key.
_ATTEMPTS = 8


class Contended(Exception):
    """A key changed under every try."""


def is_refusal(error: BaseException) -> bool:
    """Whether a call that raised this was not carried out, and never will be."""
    return isinstance(error, S3Error) and not error.after_fault


def claim(need: Need, dependent: str) -> Steps[bool]:
    """Pin a base for the object that is being written at key `dependent`. False: it may go, store without it."""
    yield Put(pin_key(need.content, dependent, need.nonce), pin_text(dependent))
    if not (yield ListUnder(tombs_of(need.content))) and (yield from find(need)) is not None:
        return True
    yield from unclaim([need], dependent)
    return False


def unclaim(needs: Iterable[Need], dependent: str) -> Steps[None]:
    """The object was not written, or is gone: its pins go, and copies that were kept for it alone."""
    needs = list(needs)
    for need in needs:
        yield Remove(pin_key(need.content, dependent, need.nonce))
    for need in needs:
        yield from collect(need.content)


def find(need: Need) -> Steps[str | None]:
    """The key where a base lies now; None: nowhere. One of greater depth is not it: it may need the dependent itself."""
    for version in (need.version, None):
        if version is None or need.version is not None:
            occupant = yield Look(need.key, version)
            if _holds(occupant, need.content, need.depth):
                return need.key
    seen: list[str] = []
    while True:
        # One that was seen may have made way for a shallower one.
        keys = [key for key in (yield ListUnder(hidden_of(need.content))) if key not in seen]
        for key in keys:
            if hidden_depth(key) <= need.depth and _holds((yield Look(key)), need.content, need.depth):
                return str(key)
        if not keys:
            return None
        seen += keys


def replace(
    key: str, new: NewObject | None, *, version: str | None = None, attempts: int = _ATTEMPTS
) -> Steps[Occupant | None]:
    """Make the new object visible at key, or remove what is there (new is None); what was there may be a base.

    version: the one to remove. Returns what was there. Raises: Contended; whatever Commit raises.
    """
    for _ in range(attempts):
        old: Occupant | None = yield Look(key, version)
        tomb = yield from _stand_aside(key, version, old, new)
        try:
            done = yield Commit(key, old.etag if old is not None else None, new)
        except S3Error as error:
            # Without an answer it may yet be carried out: then the tombstone stays, for `gc`.
            if is_refusal(error):
                yield from _lift(tomb)
            raise
        yield from _lift(tomb)
        if done:
            if old is not None and old.version is None:
                kept = {need.nonce for need in new.needs} if new is not None else set()
                yield from _left_to_gc(unclaim([need for need in old.needs if need.nonce not in kept], key))
            return old
    raise Contended(key)


def beside(key: str) -> Steps[None]:
    """Around a call of the client's own, Commit, that may put another object at key: what is there now may be a base."""
    old: Occupant | None = yield Look(key)
    tomb = yield from _stand_aside(key, None, old, NewObject())
    try:
        yield Commit(key, old.etag if old is not None else None, NewObject())
    except S3Error as error:
        if is_refusal(error):
            yield from _lift(tomb)
        raise
    yield from _lift(tomb)


def copy_needs(
    source: str, found: Occupant, target: str, *, version: str | None = None
) -> Steps[tuple[Need, ...] | None]:
    """Pins for a copy of the object found at `source`; None: it is another one by now.

    Tombstones do not matter: the source's own pins hold its bases for as long as it is there.
    """
    needs = tuple(Need(one.content, one.depth, new_nonce(), one.key, one.version) for one in found.needs)
    for need in needs:
        yield Put(pin_key(need.content, target, need.nonce), pin_text(target))
    if needs:
        now = yield Look(source, version)
        if now is None or now.etag != found.etag:
            yield from unclaim(needs, target)
            return None
    return needs


def collect(content: Content) -> Steps[None]:
    """Remove the hidden copies of a body that nothing is pinned to but one another."""
    hidden = yield ListUnder(hidden_of(content))
    if not hidden:
        return
    tomb = tomb_key(content, new_nonce())
    yield Put(tomb)
    gone: list[tuple[str, Occupant]] = []
    if not (yield from pins_by_others(content, hidden)):
        for key in sorted(hidden, key=hidden_depth, reverse=True):
            occupant = yield Look(key)
            yield Remove(key)
            if occupant is not None:
                gone.append((key, occupant))
    yield Remove(tomb)
    for key, occupant in gone:
        yield from _unpin_hidden(key, occupant.needs)


def supersede(content: Content) -> Steps[None]:
    """Of the hidden copies of a body, remove those deeper than the shallowest one that does hold it.

    Whoever needs a deeper one takes that as well; what cannot be looked at counts for nothing. So once this has run, a body
    that is kept needs none that needs it: of the copies that are left, each needs only what is shallower than itself.
    """
    copies = sorted((yield ListUnder(hidden_of(content))), key=hidden_depth)
    if not copies or hidden_depth(copies[0]) == hidden_depth(copies[-1]):
        return
    kept: str | None = None
    for copy in copies:
        occupant: Occupant | None = yield Look(copy)
        if kept is None:
            kept = copy if _holds(occupant, content, hidden_depth(copy)) else None
        elif hidden_depth(copy) > hidden_depth(kept):
            # The name alone says nothing, and others may be at work: the last look is at what stays.
            if not _holds((yield Look(kept)), content, hidden_depth(kept)):
                return
            yield Remove(copy)
            if occupant is not None:
                yield from _unpin_hidden(copy, occupant.needs)


def pins_by_others(content: Content, hidden: Sequence[str]) -> Steps[list[str]]:
    """The pins on a body but for those of its own hidden copies: a copy may be stored against a shallower one of the same."""
    pins = yield ListUnder(pins_of(content))
    return [pin for pin in pins if not any(is_pin_of(pin, copy) for copy in hidden)]


def _unpin_hidden(key: str, needs: Sequence[Need]) -> Steps[None]:
    # A hidden copy is written once under its name: whatever is pinned for it is pinned for nothing now.
    for need in needs:
        for pin in (yield ListUnder(pins_of(need.content))):
            if is_pin_of(pin, key):
                yield Remove(pin)
    for need in needs:
        yield from collect(need.content)


def _stand_aside(key: str, version: str | None, old: Occupant | None, new: NewObject | None) -> Steps[str | None]:
    """Before what is there goes: a tombstone, and where it is pinned a copy aside. Returns the tombstone.

    version: the one that is to go, of those at key.
    """
    if old is None or old.content is None or old.version is not None:
        return None
    if new is not None and new.content == old.content and new.depth <= old.depth:
        return None  # whoever needs the body finds it here
    tomb = tomb_key(old.content, new_nonce())
    try:
        yield Put(tomb)
        pins = yield ListUnder(pins_of(old.content))
    except S3Error as error:
        if error.status != _FORBIDDEN:
            yield from _lift(tomb)
            raise
        # Rights that end before our own folder: nobody who has them could have pinned anything, or keep it.
        yield from _lift(tomb)
        return None
    try:
        if pins:
            yield from _keep(key, version, old, old.content)
    except Exception:
        yield from _lift(tomb)
        raise
    return tomb


def _keep(key: str, version: str | None, old: Occupant, content: Content) -> Steps[None]:
    for copy in (yield ListUnder(hidden_of(content))):
        if hidden_depth(copy) <= old.depth and _holds((yield Look(copy)), content, old.depth):
            return
    target = hidden_key(content, old.depth, new_nonce())
    needs = yield from copy_needs(key, old, target, version=version)
    # Where the object has changed, Commit sees the same and the whole is tried again.
    if needs is None:
        return
    if (yield CopyAside(key, old.etag, target, version)):
        if _holds((yield Look(target)), content, old.depth):
            yield from _left_to_gc(supersede(content))
            return
        yield Remove(target)  # of a bucket that copies whatever is there
    yield from unclaim(needs, target)


def _holds(found: Occupant | None, content: Content, depth: int) -> bool:
    return found is not None and found.content == content and found.depth <= depth


def _lift(tomb: str | None) -> Steps[None]:
    if tomb is not None:
        yield from _left_to_gc(removed([tomb]))


def removed(keys: Iterable[str]) -> Steps[None]:
    """Objects of our own go."""
    for key in keys:
        yield Remove(key)


def _left_to_gc(steps: Steps[None]) -> Steps[None]:
    """What is tidied up behind a call is no part of its outcome."""
    try:
        yield from steps
    except (S3Error, UpstreamError) as error:
        _log.info("left to gc: %s", error)
