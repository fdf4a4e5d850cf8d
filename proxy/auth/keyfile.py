"""Access keys for clients in a TOML file, read again when it changes.

[[key]]
access_key = "AKIA..."
secret_key = "..."
prefixes = ["bucket/", "other/team/"]   # default: everything
read_only = true                        # default: false
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

from s4weights.codec.errors import ConfigError

from .credentials import Credential, CredentialStore
from .grants import Grant

_log = logging.getLogger(__name__)
_PERIOD_S: Final = 2.0
_MEMBERS: Final = {"access_key": str, "secret_key": str, "session_token": str, "prefixes": list, "read_only": bool}


class KeyFile:
    """The file, and the version of it that was read last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int, int] | None = None

    def load(self) -> list[Credential]:
        """Raises: ConfigError, which never quotes a secret."""
        try:
            self._path = self._path.expanduser()
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                data = file.read()
        except OSError as error:
            raise ConfigError(f"credentials file {self._path}: {error.strerror}") from None
        self._version = _version(status)
        if status.st_mode & stat.S_IROTH:
            _log.warning("credentials file %s can be read by every user of this machine", self._path)
        try:
            document = tomllib.loads(data.decode("utf-8"))
        except ValueError:  # its message could quote a secret
            raise ConfigError(f"credentials file {self._path}: expected TOML in UTF-8") from None
        return _credentials(document, self._path)

    async def follow(self, store: CredentialStore, period_s: float = _PERIOD_S) -> None:
        """Keep store up to date for ever. A file that cannot be used changes nothing: the keys before it stay."""
        while True:
            await asyncio.sleep(period_s)
            try:
                if not await asyncio.to_thread(self._has_changed):
                    continue
                fresh = await asyncio.to_thread(self.load)
            except ConfigError as error:
                _log.error("%s; the keys before stay valid", error)
                continue
            store.replace(fresh)
            _log.info("credentials file %s read again: %d keys", self._path, len(fresh))

    def _has_changed(self) -> bool:
        try:
            return _version(self._path.stat()) != self._version
        except OSError:
            return False  # being replaced; or gone, and then the keys stay until there is another file


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _credentials(document: dict[str, Any], path: Path) -> list[Credential]:
    rows = document.get("key")
    if document.keys() - {"key"} or not isinstance(rows, list) or not rows:
        raise ConfigError(f"credentials file {path}: expected [[key]] tables and nothing else")
    found = [_credential(row, f"credentials file {path}: key {number}") for number, row in enumerate(rows, 1)]
    names = [credential.access_key for credential in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"credentials file {path}: expected each access_key once, found {', '.join(twice)} again")
    return found


def _credential(row: Any, where: str) -> Credential:
    if not isinstance(row, dict):
        raise ConfigError(f"{where}: expected a table")
    for name, value in row.items():
        kind = _MEMBERS.get(name)
        if kind is None or not isinstance(value, kind):
            raise ConfigError(f"{where}: expected {', '.join(_MEMBERS)}, found a wrong name or type at {name!r}")
    if not row.get("access_key") or not row.get("secret_key"):
        raise ConfigError(f"{where}: expected access_key and secret_key")
    prefixes = row.get("prefixes", [])
    for prefix in prefixes:
        if not isinstance(prefix, str) or not prefix.partition("/")[0] or "/" not in prefix:
            raise ConfigError(f"{where}: expected prefixes of the form BUCKET/ or BUCKET/KEY..., found {prefix!r}")
    if "prefixes" in row and not prefixes:
        # No prefix at all would be no limit at all.
        raise ConfigError(f"{where}: expected at least one prefix, or no `prefixes` for everything")
    grant = Grant(tuple(prefixes), row.get("read_only", False))
    return Credential(row["access_key"], row["secret_key"], row.get("session_token"), grant)
