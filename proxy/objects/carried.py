"""What a copy of an object inherits from it."""

from __future__ import annotations

from typing import Final

from s4weights.proxy.upstream.protocol import Headers

INHERITED: Final = frozenset(
    {"cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"}
)
USER_METADATA: Final = "x-amz-meta-"


def inherited(headers: Headers) -> dict[str, str]:
    """Those of an object's headers that go with its body: what S3 calls its metadata."""
    return {name: value for name, value in headers.items() if name in INHERITED or name.startswith(USER_METADATA)}
