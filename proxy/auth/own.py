"""The credentials that the proxy itself would use: by default clients on this machine sign with the same."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

import botocore.session

from .credentials import Credential, CredentialStore

_log = logging.getLogger(__name__)
_PERIOD_S: Final = 60.0
# Anyone can sign with a key that nobody knows: the metadata service is asked at most so often for it.
_LOOK_AGAIN_S: Final = 5.0
# These give keys to the one process that asks: another answer would be no client's either, and cost a call to STS.
_OF_ONE_PROCESS: Final = frozenset({"assume-role", "assume-role-with-web-identity", "sso", "login"})


class OwnCredentials:
    """Environment, profile, container or instance role, in botocore's order; followed as they rotate."""

    def __init__(self) -> None:
        self._of_this_process: Any = None
        self._asking = asyncio.Lock()
        self._asked_s = float("-inf")
        self._is_failing = False

    def load(self) -> list[Credential]:
        """What a client that starts now would find; may ask the instance's metadata service."""
        # botocore asks a role's service again only shortly before its keys end, and they change hours before.
        credentials = self._of_this_process or botocore.session.get_session().get_credentials()
        if credentials is None:
            return []
        if credentials.method in _OF_ONE_PROCESS:
            self._of_this_process = credentials
        frozen = credentials.get_frozen_credentials()
        # botocore tells their end nowhere else.
        expires = getattr(credentials, "_expiry_time", None)
        return [Credential(frozen.access_key, frozen.secret_key, frozen.token, expires=expires)]

    async def follow(self, store: CredentialStore, period_s: float = _PERIOD_S) -> None:
        """Keep store up to date for ever; at once where a key comes that is not known."""
        if not store:
            return  # nobody signs, and nobody is made to while this runs
        store.look_again = lambda: self._look_again(store)
        while True:
            await asyncio.sleep(period_s)
            async with self._asking:
                await self._ask(store)

    async def _look_again(self, store: CredentialStore) -> None:
        async with self._asking:
            # Also for those who waited meanwhile.
            if time.monotonic() - self._asked_s >= _LOOK_AGAIN_S:
                await self._ask(store)

    async def _ask(self, store: CredentialStore) -> None:
        """A failure changes nothing and is told once."""
        try:
            found, fault = await asyncio.to_thread(self.load), "found none"
        except Exception as error:  # whatever a provider raises, the next try may go well
            found, fault = [], f"{type(error).__name__}: {error}"
        self._asked_s = time.monotonic()
        if not found and not self._is_failing:
            _log.warning("own credentials could not be read again, those before stay valid: %s", fault)
        self._is_failing = not found
        store.rotate(found)
