"""TLS for the S3 port: a certificate chain and its key, read again when the files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final, TypeAlias

from s4weights.codec.errors import ConfigError

_log = logging.getLogger(__name__)
_PERIOD_S: Final = 2.0
_Version: TypeAlias = tuple[tuple[int, int, int], ...]


class ServerCertificate:
    """context: for the listener; connections that come after a change get the new chain."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises: ConfigError."""
        self._certificate = certificate.expanduser()
        self._key = key.expanduser()
        self._version = self._read_version()
        self.context = self._load()

    async def follow(self, period_s: float = _PERIOD_S) -> None:
        """Keep the chain up to date for ever. Files that cannot be used, or do not match, change nothing."""
        while True:
            await asyncio.sleep(period_s)
            try:
                version = await asyncio.to_thread(self._read_version)
                if version == self._version:
                    continue
                # Tried on a context of its own: a chain without its key would leave this one unusable.
                await asyncio.to_thread(self._load)
                self._load_into(self.context)
            except ConfigError as error:
                _log.error("%s; the certificate before stays", error)
                continue
            self._version = version
            _log.info("certificate %s read again", self._certificate)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self._load_into(context)
        return context

    def _load_into(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self._certificate, self._key, password=self._refuse_password)
        except (OSError, ValueError) as error:  # SSLError is an OSError
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise ConfigError(
                f"tls_cert {self._certificate}, tls_key {self._key}: expected a PEM chain and its key: {reason}"
            ) from None

    def _refuse_password(self) -> str:
        raise ValueError("the key is encrypted, and there is nobody to ask")  # OpenSSL would ask the terminal

    def _read_version(self) -> _Version:
        try:
            status = [path.stat() for path in (self._certificate, self._key)]
        except OSError as error:
            raise ConfigError(f"{error.filename}: {error.strerror}") from None
        return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in status)
