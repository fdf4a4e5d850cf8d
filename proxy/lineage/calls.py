"""What the protocol asks of a bucket, as values: the protocol itself does no I/O, so that every order can be tried."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from .names import Content


@dataclass(frozen=True, slots=True)
class Need:
    """A body that an object needs. depth: of the base when it was written, at most. nonce: of the pin made for it.

    key, version: where it lay then. bucket: always the dependent's own.
    """

    content: Content
    depth: int
    nonce: str
    key: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Occupant:
    """What lies at a key. content: None where it is no container, or too small to be anybody's base.

    version: where the bucket keeps this one when another takes its place. depth: 0 needs no other body.
    is_known: False where something is there that cannot be looked at (its class, its key, our rights, damage).
    """

    etag: str
    content: Content | None = None
    depth: int = 0
    needs: tuple[Need, ...] = ()
    version: str | None = None
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class NewObject:
    """What is to become visible at a key. content: None for a body that is no container, or too small to be a base."""

    content: Content | None = None
    depth: int = 0
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """Answer: Occupant or None."""

    key: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """A small object of our own. Answer: None."""

    key: str
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class Read:
    """A small object of our own. Answer: its bytes, or None."""

    key: str


@dataclass(frozen=True, slots=True)
class ListUnder:
    """Answer: keys with the prefix, in order."""

    prefix: str


@dataclass(frozen=True, slots=True)
class CopyAside:
    """Copy what lies at key, or one version of it, as long as it has this ETag, to a new hidden key. Answer: whether it had."""

    key: str
    etag: str
    target: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove one of our own objects. Answer: None."""

    key: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Make the new object visible at key, or remove the one there (new is None), as long as the key is as it was seen.

    Answer: whether it was. seen: ETag; None: nothing was there.
    """

    key: str
    seen: str | None
    new: NewObject | None


Call: TypeAlias = Look | Put | Read | ListUnder | CopyAside | Remove | Commit
_T = TypeVar("_T")
Steps: TypeAlias = Generator[Call, Any, _T]
"""A piece of the protocol: yields calls, is sent their answers, returns its result."""
