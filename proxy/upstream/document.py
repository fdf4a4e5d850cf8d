"""A document that the bucket itself answered a forwarded call with."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Final

from s4weights.proxy.errors import UpstreamError
from s4weights.proxy.http.xml import NAMESPACE

from .protocol import Forwarded

# A thousand rows of a key of a kibibyte each, all of it percent-encoded, with room.
_MAX_BYTES: Final = 16 << 20
NS: Final = f"{{{NAMESPACE}}}"


async def read_answered(answer: Forwarded, what: str) -> ElementTree.Element:
    """Its root, every name in S3's namespace. what: for messages. Raises: UpstreamError where it is too long, or no XML."""
    data = bytearray()
    try:
        if answer.body is not None and not isinstance(answer.body, bytes):
            async for chunk in answer.body:
                data += chunk
                if len(data) > _MAX_BYTES:
                    raise UpstreamError(f"{what}: expected at most {_MAX_BYTES} bytes")
    finally:
        answer.release()
    try:
        root = ElementTree.fromstring(bytes(data))  # noqa: S314 - the bucket's own answer, bounded
    except ElementTree.ParseError as error:
        raise UpstreamError(f"{what}: the bucket's document cannot be read: {error}") from error
    for element in root.iter():
        element.tag = f"{NS}{element.tag.rpartition('}')[2]}"  # some servers leave the namespace out
    return root
