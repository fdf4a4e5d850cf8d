"""What a copy of an object inherits from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from s4weights.proxy.upstream.protocol import Headers

INHERITED: Final = frozenset(
    {"cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"}
)
USER_METADATA: Final = "x-amz-meta-"
_TAGGING: Final = "x-amz-tagging"
_DIRECTIVE: Final = f"{_TAGGING}-directive"


def inherited(headers: Headers) -> dict[str, str]:
    """Those of an object's headers that go with its body: what S3 calls its metadata."""
    return {name: value for name, value in headers.items() if name in INHERITED or name.startswith(USER_METADATA)}


async def copied_tags(headers: Headers, ask: Callable[[], Awaitable[str]]) -> dict[str, str]:
    """The headers of a copy that is written anew: its tags are the source's, unless x-amz-tagging-directive says REPLACE.

    ask: for the source's tags.
    """
    kept = {name: value for name, value in headers.items() if name != _DIRECTIVE}
    if headers.get(_DIRECTIVE, "COPY").upper() == "COPY":
        kept.pop(_TAGGING, None)
        if tags := await ask():
            kept[_TAGGING] = tags
    return kept
