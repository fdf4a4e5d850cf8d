"""Pages of listings, and what they leave out."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from botocore.exceptions import ClientError

from .conftest import BUCKET

KEYS = ["a", "b/1", "b/2", "c&<>'\"", "d\x01", "e f+ü%"]


@pytest.fixture
async def filled(service):
    for key in KEYS:
        await service.call("put_object", Bucket=BUCKET, Key=key, Body=b"x")
    return service


@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("size", [1, 2, 5, 6])
@pytest.mark.parametrize("delimiter", ["", "/"])
async def test_pages_of_every_size_hold_each_name_once(filled, operation, size, delimiter):
    def names():
        pages = filled.client.get_paginator(operation).paginate(
            Bucket=BUCKET, Delimiter=delimiter, PaginationConfig={"PageSize": size}
        )
        found = []
        for page in pages:
            here = [row["Key"] for row in page.get("Contents", [])]
            here += [row["Prefix"] for row in page.get("CommonPrefixes", [])]
            assert len(here) <= size
            found += here
        return sorted(found)

    expected = KEYS if not delimiter else [key for key in KEYS if "/" not in key] + ["b/"]
    assert await filled.run(names) == sorted(expected)


async def test_start_after_owner_and_counts(filled):
    page = await filled.call("list_objects_v2", Bucket=BUCKET, StartAfter="b/1", FetchOwner=True, MaxKeys=2)
    assert [row["Key"] for row in page["Contents"]] == ["b/2", "c&<>'\""]
    assert (page["KeyCount"], page["MaxKeys"], page["IsTruncated"]) == (2, 2, True)
    assert page["Contents"][0]["Owner"]["ID"]
    rest = await filled.call("list_objects_v2", Bucket=BUCKET, ContinuationToken=page["NextContinuationToken"])
    assert [row["Key"] for row in rest["Contents"]] == KEYS[4:]
    assert "Owner" not in rest["Contents"][0]


@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
async def test_a_page_of_no_keys_is_not_truncated(filled, operation):
    page = await filled.call(operation, Bucket=BUCKET, MaxKeys=0)
    assert (page.get("Contents"), page["IsTruncated"]) == (None, False)


async def test_names_are_encoded_only_when_asked_for(filled):
    for query, expected in (("?prefix=e", "e f+ü%"), ("?encoding-type=url&prefix=e", "e%20f%2B%C3%BC%25")):
        path = f"/{BUCKET}{query}"
        _, _, body = await filled.send("GET", path, filled.signed("GET", path))
        assert ElementTree.fromstring(body).findtext("{*}Contents/{*}Key") == expected


@pytest.mark.parametrize(
    "query",
    [
        "max-keys=-1",
        "max-keys=x",
        "list-type=2&continuation-token=%21",
        "encoding-type=base64",
        "max-uploads=x&uploads",
    ],
)
async def test_parameters_that_cannot_be_are_refused(filled, query):
    path = f"/{BUCKET}?{query}"
    status, _, body = await filled.send("GET", path, filled.signed("GET", path))
    assert (status, ElementTree.fromstring(body).findtext("Code")) == (400, "InvalidArgument")


async def test_what_lies_under_our_own_prefix_is_not_listed(filled):
    own = filled.directory / BUCKET / ".s4weights" / "pins"
    own.mkdir(parents=True)
    (own / "x").write_bytes(b"x")
    page = await filled.call("list_objects_v2", Bucket=BUCKET)
    assert [row["Key"] for row in page["Contents"]] == KEYS
    page = await filled.call("list_objects", Bucket=BUCKET, Delimiter="/")
    assert [row["Prefix"] for row in page["CommonPrefixes"]] == ["b/"]


@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
async def test_pages_that_hold_only_our_own_keys_do_not_end_a_listing(filled, operation):
    own = filled.directory / BUCKET / ".s4weights"
    own.mkdir()
    for name in "xyz":
        (own / name).write_bytes(b"x")

    def keys():
        pages = filled.client.get_paginator(operation).paginate(Bucket=BUCKET, PaginationConfig={"PageSize": 1})
        return [row["Key"] for page in pages for row in page.get("Contents", [])]

    assert await filled.run(keys) == KEYS


@pytest.mark.parametrize(
    "operation", ["list_objects", "list_objects_v2", "list_multipart_uploads", "get_bucket_location"]
)
async def test_a_bucket_that_is_not_there(service, operation):
    with pytest.raises(ClientError, match="NoSuchBucket"):
        await service.call(operation, Bucket="not-there")


async def test_a_directory_is_located_where_us_east_1_is(service):
    assert (await service.call("get_bucket_location", Bucket=BUCKET))["LocationConstraint"] is None


async def test_uploads_in_pages(service):
    ids = [
        (await service.call("create_multipart_upload", Bucket=BUCKET, Key=key))["UploadId"] for key in ("a", "b", "b")
    ]

    def uploads():
        pages = service.client.get_paginator("list_multipart_uploads").paginate(
            Bucket=BUCKET, PaginationConfig={"PageSize": 1}
        )
        return [row["UploadId"] for page in pages for row in page.get("Uploads", [])]

    found = await service.run(uploads)
    assert found[0] == ids[0]
    assert sorted(found[1:]) == sorted(ids[1:])


async def test_parts_in_pages(service):
    upload = {"Bucket": BUCKET, "Key": "k"}
    upload["UploadId"] = (await service.call("create_multipart_upload", **upload))["UploadId"]
    for number in (3, 1, 7):
        await service.call("upload_part", PartNumber=number, Body=b"x" * number, **upload)

    def parts():
        pages = service.client.get_paginator("list_parts").paginate(PaginationConfig={"PageSize": 2}, **upload)
        return [[(row["PartNumber"], row["Size"]) for row in page["Parts"]] for page in pages]

    assert await service.run(parts) == [[(1, 1), (3, 3)], [(7, 7)]]
