"""What the machine says of itself: EC2's instance metadata, version 2 alone, and small documents of the platform.

Addresses are AWS's link-local ones and no setting: who chose them could choose the answer.
Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Final

import aiohttp

from .errors import PlatformSilent
from .limits import METADATA_BYTES, METADATA_S

INSTANCE_ADDRESS = "http://169.254.169.254"
_VALID_FOR_S: Final = "60"


class InstanceMetadata:
    """One session with the metadata service, by the token that it gave."""

    def __init__(self, session: aiohttp.ClientSession, token: str) -> None:
        self._session = session
        self._token = token

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[InstanceMetadata]:
        """Ask for a token. Raises: PlatformSilent."""
        async with _session() as session:
            url = f"{INSTANCE_ADDRESS}/latest/api/token"
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": _VALID_FOR_S}
            token = await _text(session, "PUT", url, headers)
            if not token.strip().isprintable() or not token.strip():
                raise PlatformSilent(f"{url}: expected a token, found {token[:40]!r}")
            yield cls(session, token.strip())

    async def get(self, path: str) -> str:
        """path: below /latest. Raises: PlatformSilent."""
        url = f"{INSTANCE_ADDRESS}/latest/{path}"
        return await _text(self._session, "GET", url, {"X-aws-ec2-metadata-token": self._token})


async def platform_text(url: str) -> str:
    """A small document of the container platform. Raises: PlatformSilent."""
    async with _session() as session:
        return await _text(session, "GET", url, {})


def _session() -> aiohttp.ClientSession:
    # Straight, past every proxy of the environment.
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=METADATA_S), trust_env=False)


async def _text(session: aiohttp.ClientSession, method: str, url: str, headers: dict[str, str]) -> str:
    try:
        async with session.request(method, url, headers=headers, allow_redirects=False) as answer:
            if answer.status != 200:
                raise PlatformSilent(f"{method} {url}: expected 200, found {answer.status}")
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > METADATA_BYTES:
                    raise PlatformSilent(f"{method} {url}: expected at most {METADATA_BYTES} bytes, found more")
            return body.decode("utf-8")
    except TimeoutError:
        raise PlatformSilent(f"{method} {url}: expected an answer within {METADATA_S:g} s, found none") from None
    except UnicodeDecodeError:
        raise PlatformSilent(f"{method} {url}: expected text, found other bytes") from None
    except (aiohttp.ClientError, OSError) as error:
        raise PlatformSilent(f"{method} {url}: {error or type(error).__name__}") from error
