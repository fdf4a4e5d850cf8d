"""The keys that clients may sign with."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeVar

from s4weights.proxy.errors import S3Error

from .grants import EVERYTHING, Grant

# A role's keys live up to 12 hours and change about every hour.
_MAX_PREVIOUS: Final = 64
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Credential:
    """One access key. Secrets never show in a repr, and so in no log."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    grant: Grant = EVERYTHING
    expires: datetime | None = None
    """After a rotation it stays valid until then; None: until the next rotation."""


class CredentialStore:
    """Known credentials; those of before a rotation stay valid beside the new ones."""

    def __init__(self, credentials: Iterable[Credential] = ()) -> None:
        self._current = {credential.access_key: credential for credential in credentials}
        self._previous: dict[str, Credential] = {}
        self.look_again: Callable[[], Awaitable[None]] | None = None
        """Asks where the keys come from, as often as may be; None: there is nobody to ask."""

    def __bool__(self) -> bool:
        return bool(self._current)

    def find(self, access_key: str) -> Credential | None:
        """The credential of an access key. Its name is public; only signatures are compared in constant time."""
        found = self._current.get(access_key)
        if found is not None:
            return found
        previous = self._previous.get(access_key)
        return previous if previous is not None and not _has_ended(previous, datetime.now(UTC)) else None

    async def checked(self, check: Callable[[], _T]) -> _T:
        """What check gives; where it meets a key that is not known, what it gives after another look. Raises: as check."""
        try:
            return check()
        except S3Error as error:
            if error.code != "InvalidAccessKeyId" or self.look_again is None:
                raise
        await self.look_again()
        return check()

    def rotate(self, credentials: Iterable[Credential]) -> None:
        """Take a new set; those before stay valid until they expire, one that does not until the next rotation.

        An empty one changes nothing: without credentials nobody would need to sign.
        """
        fresh = {credential.access_key: credential for credential in credentials}
        if not fresh:
            return
        if _keys(fresh) == _keys(self._current):
            self._current = fresh  # they may end later now
            return
        now = datetime.now(UTC)
        older = {name: one for name, one in self._previous.items() if one.expires is not None}
        kept = {
            name: one
            for name, one in {**self._current, **older}.items()
            if name not in fresh and not _has_ended(one, now)
        }
        self._previous = dict(itertools.islice(kept.items(), _MAX_PREVIOUS))  # the newest
        self._current = fresh

    def replace(self, credentials: Iterable[Credential]) -> None:
        """Take a new set alone: keys that are not in it are revoked. An empty one changes nothing, as in `rotate`."""
        fresh = {credential.access_key: credential for credential in credentials}
        if fresh:
            self._previous, self._current = {}, fresh


def _keys(credentials: dict[str, Credential]) -> list[tuple[str, str, str]]:
    return sorted((one.access_key, one.secret_key, one.session_token or "") for one in credentials.values())


def _has_ended(credential: Credential, now: datetime) -> bool:
    return credential.expires is not None and credential.expires <= now
