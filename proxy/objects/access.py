"""What no answer to GET tells of an object: whom its access control list lets in, and its tags to who may not read them."""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree

from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.document import NS, read_answered
from s4weights.proxy.upstream.protocol import Forwarded, Upstream, path_of

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
    if answer.status != 200:
        answer.release()
        return answer.status in _NO_LISTS
    return _grants_its_owner_alone(await read_answered(answer, f"GetObjectAcl of {bucket}/{key}"))


def _grants_its_owner_alone(policy: ElementTree.Element) -> bool:
    owner = policy.findtext(f"{NS}Owner/{NS}ID")
    grants = policy.findall(f"{NS}AccessControlList/{NS}Grant")
    return bool(owner and grants) and all(
        grant.findtext(f"{NS}Grantee/{NS}ID") == owner and grant.findtext(f"{NS}Permission") == "FULL_CONTROL"
        for grant in grants
    )
