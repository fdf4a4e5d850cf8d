"""Open uploads, page by page, as keys or by what they have in common."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import BUCKET

KEYS = ["a/1", "a/2", "b", "b", "c d+ü/x", "e"]


@pytest.fixture
async def uploads(service) -> list[tuple[str, str]]:
    begun = [(key, (await service.call("create_multipart_upload", Bucket=BUCKET, Key=key))["UploadId"]) for key in KEYS]
    return sorted(begun)


async def pages(service, **asked: Any) -> list[dict[str, Any]]:
    found, marker = [], {}
    while True:
        page = await service.call("list_multipart_uploads", Bucket=BUCKET, **asked, **marker)
        found.append(page)
        if not page["IsTruncated"]:
            return found
        marker = {
            name: page[f"Next{name}"] for name in ("KeyMarker", "UploadIdMarker") if page.get(f"Next{name}") is not None
        }


@pytest.mark.parametrize("most", [1, 2, 5, 1000])
async def test_each_is_listed_once_however_long_a_page_is(service, uploads, most):
    found = await pages(service, MaxUploads=most)
    assert [(one["Key"], one["UploadId"]) for page in found for one in page.get("Uploads", [])] == uploads
    assert all(len(page.get("Uploads", [])) <= most for page in found)


@pytest.mark.parametrize("most", [1, 2, 3, 1000])
async def test_what_they_have_in_common_counts_as_a_row(service, uploads, most):
    found = await pages(service, MaxUploads=most, Delimiter="/")
    assert [one["Prefix"] for page in found for one in page.get("CommonPrefixes", [])] == ["a/", "c d+ü/"]
    assert [one["Key"] for page in found for one in page.get("Uploads", [])] == ["b", "b", "e"]
    assert all(len(page.get("Uploads", [])) + len(page.get("CommonPrefixes", [])) <= most for page in found)


async def test_below_a_prefix_and_encoded(service, uploads):
    [page] = await pages(service, Prefix="c", EncodingType="url")
    assert (page["EncodingType"], page["Uploads"][0]["Key"]) == ("url", "c%20d%2B%C3%BC/x")
    [page] = await pages(service, Prefix="a/", Delimiter="/")
    assert [one["Key"] for one in page["Uploads"]] == ["a/1", "a/2"]
    assert "CommonPrefixes" not in page


async def test_a_marker_among_what_they_have_in_common_does_not_hide_the_rest(service, uploads):
    page = await service.call("list_multipart_uploads", Bucket=BUCKET, Delimiter="/", KeyMarker="a/1")
    assert [one["Prefix"] for one in page["CommonPrefixes"]] == ["a/", "c d+ü/"]
    page = await service.call("list_multipart_uploads", Bucket=BUCKET, Delimiter="/", KeyMarker="a/2")
    assert [one["Prefix"] for one in page["CommonPrefixes"]] == ["c d+ü/"]
