"""SigV4 for requests whose bodies stream, and which region's endpoint they go to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest

from .framing import STREAMING

PAYLOAD_HASH: Final = "x-amz-content-sha256"
# So S3 answers a call that belongs to another region.
ELSEWHERE: Final = frozenset({301, 307, 400})
_MOST_REGIONS: Final = 10_000
_REGION: Final = re.compile(r"[a-z0-9-]{1,64}")


class _Signature(S3SigV4Auth):  # type: ignore[misc]
    """Signs what is declared of the body: a body that streams is not known beforehand."""

    declared = "UNSIGNED-PAYLOAD"
    """Of a body that TLS, a private network or its own checksum protects."""

    def payload(self, _: AWSRequest) -> str:
        return self.declared


class Signer:
    """Makes requests to one service; remembers the buckets that lie in other regions."""

    def __init__(
        self, credentials: Any, region: str, endpoint: str, regional: Callable[[str], str] | None = None
    ) -> None:
        """credentials: aiobotocore's, refreshed as they age. endpoint: scheme, host and port.

        regional: gives the endpoint of another region, where a bucket may lie in one.
        """
        self.endpoint = endpoint
        self._credentials = credentials
        self._region = region
        self._regional = regional
        self._regions: dict[str, str] = {}

    async def sign(
        self, method: str, path: str, query: str, headers: Mapping[str, str], *, is_signed: bool = True
    ) -> tuple[str, dict[str, str]]:
        """URL and headers of a request. path, query: raw, as on the wire."""
        region = self._region_of(path)
        endpoint = self.endpoint
        if self._regional is not None and region != self._region:
            endpoint = self._regional(region)
        url = f"{endpoint}{path}" + (f"?{query}" if query else "")
        request = AWSRequest(method=method, url=url, headers={**headers, "host": urlsplit(endpoint).netloc})
        if not is_signed:
            return url, dict(request.headers.items())
        frozen = await self._credentials.get_frozen_credentials()
        signature = _Signature(frozen, "s3", region)
        if PAYLOAD_HASH in headers:
            signature.declared = headers[PAYLOAD_HASH]
        elif "x-amz-trailer" in headers:
            signature.declared = STREAMING
        signature.add_auth(request)
        return url, dict(request.headers.items())

    def is_elsewhere(self, path: str, status: int, headers: Mapping[str, str]) -> bool:
        """Whether an answer says that the bucket lies in a region that was not known; from now on it is."""
        region = headers.get("x-amz-bucket-region", "")
        if self._regional is None or status not in ELSEWHERE or region == self._region_of(path):
            return False
        if not _REGION.fullmatch(region):
            return False
        self._regions[_bucket_of(path)] = region
        while len(self._regions) > _MOST_REGIONS:
            del self._regions[next(iter(self._regions))]
        return True

    def _region_of(self, path: str) -> str:
        return self._regions.get(_bucket_of(path), self._region)


def _bucket_of(path: str) -> str:
    return path.split("/", 2)[1]
