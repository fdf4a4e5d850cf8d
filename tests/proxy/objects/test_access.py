"""Of which lists it is known that nobody but the owner is let in."""

from __future__ import annotations

import pytest

from s4weights.proxy.errors import S3Error
from s4weights.proxy.objects.access import has_no_tags, is_its_owners_alone
from s4weights.proxy.upstream.protocol import Forwarded

OWNER = "<Owner><ID>me</ID></Owner>"
FULL = "<Permission>FULL_CONTROL</Permission>"
MINE = f"<Grant><Grantee><ID>me</ID></Grantee>{FULL}</Grant>"
OTHER = f"<Grant><Grantee><ID>you</ID></Grantee>{FULL}</Grant>"
ALL = f"<Grant><Grantee><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee>{FULL}</Grant>"
READ = "<Grant><Grantee><ID>me</ID></Grantee><Permission>READ</Permission></Grant>"


class Bucket:
    def __init__(self, status: int, document: str, tags: str | S3Error = "") -> None:
        self.status, self.document, self._tags, self.released = status, document, tags, 0

    async def forward(self, request: Forwarded) -> Forwarded:
        async def chunks():
            yield self.document.encode()

        def release() -> None:
            self.released += 1

        return Forwarded(request.method, request.path, status=self.status, body=chunks(), release=release)

    async def tags(self, *_: str) -> str:
        if isinstance(self._tags, S3Error):
            raise self._tags
        return self._tags


def policy(owner: str, *grants: str, namespace: str = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"') -> str:
    lists = f"<AccessControlList>{''.join(grants)}</AccessControlList>"
    return f"<AccessControlPolicy{namespace}>{owner}{lists}</AccessControlPolicy>"


@pytest.mark.parametrize(
    ("status", "document", "is_private"),
    [
        (200, policy(OWNER, MINE), True),
        (200, policy(OWNER, MINE, namespace=""), True),
        (200, policy(OWNER, MINE, OTHER), False),
        (200, policy(OWNER, MINE, ALL), False),
        (200, policy(OWNER, READ), False),
        (200, policy("", ALL), False),
        (200, policy(OWNER), False),
        (200, policy("", MINE), False),
        (403, "<Error/>", False),
        (404, "<Error/>", False),
        (501, "<Error/>", True),
    ],
)
async def test_only_what_the_bucket_says(status, document, is_private):
    bucket = Bucket(status, document)
    assert await is_its_owners_alone(bucket, "b", "k") is is_private
    assert bucket.released == 1


@pytest.mark.parametrize(("tags", "has_none"), [("", True), ("a=1", False), (S3Error("AccessDenied"), False)])
async def test_tags_that_may_not_be_read_may_be_there(tags, has_none):
    assert await has_no_tags(Bucket(200, "", tags), "b", "k") is has_none
