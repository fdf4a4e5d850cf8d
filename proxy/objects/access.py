"""What no answer to GET tells of an object: whom its access control list lets in, and its tags to who may not read them."""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.protocol import Forwarded, Upstream, path_of

_MAX_BYTES: Final = 256 << 10  # S3 keeps at most 100 grants
_NO_LISTS: Final = frozenset({405, 501})


async def has_no_tags(upstream: Upstream, bucket: str, key: str) -> bool:
    """Whether an object is known to have none. Raises: UpstreamError."""
    try:
        return not await upstream.tags(bucket, key)
    except S3Error:
        return False


async def is_its_owners_alone(upstream: Upstream, bucket: str, key: str) -> bool:
    """Whether an object is known to have the list that a new write gives it. Raises: S3Error, UpstreamError."""
    try:
        answer = await upstream.forward(Forwarded("GET", path_of(bucket, key), "acl"))
    except S3Error as error:
        if error.code == "NotImplemented":
            return True  # a directory
        raise
    try:
        document = await _read(answer)
    finally:
        if answer.release is not None:
            answer.release()
    if answer.status in _NO_LISTS:
        return True
    if answer.status != 200:
        return False
    try:
        return _grants_its_owner_alone(ElementTree.fromstring(document))  # noqa: S314 - the bucket's own answer, bounded
    except ElementTree.ParseError as error:
        raise UpstreamError(f"GetObjectAcl of {bucket}/{key}: {error}") from error


async def _read(answer: Forwarded) -> bytes:
    data = b""
    if answer.body is not None and not isinstance(answer.body, bytes):
        async for chunk in answer.body:
            data += chunk
            if len(data) > _MAX_BYTES:
                raise UpstreamError(f"{answer.path}: expected at most {_MAX_BYTES} bytes of a list")
    return data


def _grants_its_owner_alone(policy: ElementTree.Element) -> bool:
    owner = policy.findtext("{*}Owner/{*}ID")
    grants = policy.findall("{*}AccessControlList/{*}Grant")
    return bool(owner and grants) and all(
        grant.findtext("{*}Grantee/{*}ID") == owner and grant.findtext("{*}Permission") == "FULL_CONTROL"
        for grant in grants
    )
