"""The keys that clients may sign with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .grants import EVERYTHING, Grant


@dataclass(frozen=True, slots=True)
class Credential:
    """One access key. Secrets never show in a repr, and so in no log."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    grant: Grant = EVERYTHING


class CredentialStore:
    """Known credentials; those of before a rotation stay valid beside the new ones."""

    def __init__(self, credentials: Iterable[Credential] = ()) -> None:
        self._current = {credential.access_key: credential for credential in credentials}
        self._previous: dict[str, Credential] = {}

    def __bool__(self) -> bool:
        return bool(self._current)

    def find(self, access_key: str) -> Credential | None:
        """The credential of an access key. Its name is public; only signatures are compared in constant time."""
        return self._current.get(access_key) or self._previous.get(access_key)

    def rotate(self, credentials: Iterable[Credential]) -> None:
        """Take a new set; the one before stays valid until the next rotation.

        An empty one changes nothing: without credentials nobody would need to sign.
        """
        fresh = {credential.access_key: credential for credential in credentials}
        if fresh and fresh != self._current:
            self._previous, self._current = self._current, fresh

    def replace(self, credentials: Iterable[Credential]) -> None:
        """Take a new set alone: keys that are not in it are revoked. An empty one changes nothing, as in `rotate`."""
        fresh = {credential.access_key: credential for credential in credentials}
        if fresh:
            self._previous, self._current = {}, fresh
