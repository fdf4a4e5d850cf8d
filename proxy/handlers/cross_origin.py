"""CORS by the bucket's own rules: it answers preflights, and is asked by one what a browser may see of any other answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.objects.lru import LRU
from s4weights.proxy.upstream.protocol import Forwarded

from .forward import pass_back

_ASKED: Final = ("origin", "access-control-request-method", "access-control-request-headers")
# Of a preflight's answer, what every other one carries as well.
_GIVEN: Final = frozenset(
    {
        "access-control-allow-credentials",
        "access-control-allow-methods",
        "access-control-allow-origin",
        "access-control-expose-headers",
        "access-control-max-age",
        "vary",
    }
)
# The call itself does not wait longer for it.
_PATIENCE_S: Final = 3.0
_KEPT_S: Final = 10.0
_MOST_KEPT: Final = 256


async def preflight(context: Context) -> web.StreamResponse:
    """What a browser asks before a request; no browser signs it, and the bucket's rules are nobody's secret."""
    headers = {name: context.headers[name] for name in _ASKED if name in context.headers}
    try:
        answer = await context.upstream.forward(Forwarded("OPTIONS", context.path, headers=headers, is_signed=False))
    except S3Error as error:
        if error.code != "NotImplemented":
            raise
        message = "CORSResponse: CORS is not enabled for this bucket."
        raise S3Error("AccessForbidden", message, status=403) from None
    return await pass_back(context, answer)


class CrossOrigin:
    """What the bucket says of an origin, for some seconds."""

    def __init__(self) -> None:
        self._known: LRU[tuple[str, str, str], tuple[float, Mapping[str, str]]] = LRU(_MOST_KEPT)

    async def headers(self, context: Context) -> Mapping[str, str]:
        """For the answer to a request that names its origin. Empty where the bucket cannot be asked: the call goes on."""
        asked = (context.bucket, context.headers["origin"], context.request.method)
        kept = self._known.get(asked)
        if kept is not None and time.monotonic() - kept[0] < _KEPT_S:
            return kept[1]
        said = await _ask(context)
        if said is None:
            return {}
        self._known.put(asked, (time.monotonic(), said))
        return said


async def _ask(context: Context) -> Mapping[str, str] | None:
    """None: it did not say."""
    headers = {"origin": context.headers["origin"], "access-control-request-method": context.request.method}
    try:
        async with asyncio.timeout(_PATIENCE_S):
            answer = await context.upstream.forward(
                Forwarded("OPTIONS", context.path, headers=headers, is_signed=False)
            )
    except (S3Error, UpstreamError, TimeoutError):
        return None
    answer.release()
    if answer.status >= 500:
        return None
    return {name: value for name, value in answer.headers.items() if name in _GIVEN}
