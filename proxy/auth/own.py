"""The credentials that the proxy itself would use: by default clients on this machine sign with the same."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import botocore.session
from botocore.exceptions import BotoCoreError

from .credentials import Credential, CredentialStore

_log = logging.getLogger(__name__)
# An instance role's keys change some hours before the old ones end.
_REFRESH_S: Final = 60.0


class OwnCredentials:
    """Environment, profile, container or instance role, in botocore's order; followed as they rotate."""

    def __init__(self) -> None:
        self._credentials = botocore.session.get_session().get_credentials()

    def load(self) -> list[Credential]:
        """What is valid now; may ask the instance's metadata service."""
        if self._credentials is None:
            return []
        frozen = self._credentials.get_frozen_credentials()
        return [Credential(frozen.access_key, frozen.secret_key, frozen.token)]

    async def follow(self, store: CredentialStore) -> None:
        """Keep store up to date for ever; the set before stays valid beside the current one."""
        while True:
            await asyncio.sleep(_REFRESH_S)
            try:
                store.rotate(await asyncio.to_thread(self.load))
            except (BotoCoreError, RuntimeError) as error:  # RuntimeError: refreshed keys that have expired already
                _log.warning("own credentials could not be refreshed: %s", error)
