"""A browser sees through the proxy what the bucket's CORS rules let it see."""

from __future__ import annotations

import contextlib
import http.client
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import BUCKET, Endpoint
from tests.e2e.differential import Request, Side
from tests.e2e.test_differential import CHECKPOINT, NOISE, sides

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
__all__ = ["sides"]  # a fixture
RULES = {
    "CORSRules": [
        {
            "AllowedOrigins": ["https://app.example"],
            "AllowedMethods": ["GET", "HEAD", "PUT"],
            "AllowedHeaders": ["*"],
            "ExposeHeaders": ["ETag"],
            "MaxAgeSeconds": 60,
        }
    ]
}
ORIGINS = ["https://app.example", "https://evil.example"]


@pytest.fixture(scope="module")
def rules(endpoint: Endpoint, sides: tuple[Side, Side]) -> None:
    for side in sides:
        endpoint.straight.put_bucket_cors(Bucket=side.bucket, CORSConfiguration=RULES)
        for key, body in (("model", CHECKPOINT), ("noise", NOISE)):
            side.send(Request("PUT", f"/{key}", {}, body))


def unsigned(endpoint: str, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
    with contextlib.closing(http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=30)) as wire:
        wire.request(method, path, headers=headers)
        answer = wire.getresponse()
        answer.read()
        return answer.status, cross_origin({name.lower(): value for name, value in answer.getheaders()})


def cross_origin(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("access-control-") or name == "vary"}


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_preflight_is_the_buckets(rules, endpoint, sides, origin, method):
    headers = {"Origin": origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "range"}
    straight, through = sides
    found = unsigned(endpoint.proxy.endpoint, "OPTIONS", f"/{through.bucket}/model", headers)
    assert found == unsigned(endpoint.straight.meta.endpoint_url, "OPTIONS", f"/{straight.bucket}/model", headers)
    assert ("access-control-allow-origin" in found[1]) == (origin == ORIGINS[0])


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", "/model"),
        Request("GET", "/noise", {"range": "bytes=0-9"}),
        Request("HEAD", "/model"),
        Request("GET", "/missing"),
        Request("PUT", "/model", {}, CHECKPOINT),
        Request("GET", "?list-type=2"),
        Request("GET", "?location"),
    ],
    ids=lambda one: f"{one.method} {one.path}",
)
def test_every_answer_tells_a_browser_what_it_may_see(rules, sides, origin, request_):
    headers = {**request_.headers, "origin": origin}
    request = Request(request_.method, request_.path, headers, request_.body)
    straight, through = (cross_origin(side.send(request).headers) for side in sides)
    assert through.get("access-control-allow-origin") == straight.get("access-control-allow-origin")
    assert (through.get("access-control-allow-origin") == origin) == (origin == ORIGINS[0])
    assert through.get("access-control-expose-headers") == straight.get("access-control-expose-headers")


def test_nobody_else_is_told_anything(rules, sides):
    straight, through = (cross_origin(side.send(Request("GET", "/model")).headers) for side in sides)
    assert through == straight
    assert "access-control-allow-origin" not in through


@pytest.mark.parametrize("path", ["/k", ""])
def test_a_bucket_without_rules(endpoint, path):
    headers = {"Origin": ORIGINS[0], "Access-Control-Request-Method": "GET"}
    found = unsigned(endpoint.proxy.endpoint, "OPTIONS", f"/{BUCKET}{path}", headers)
    if endpoint.directory is None:  # SeaweedFS has rules of its own
        assert found == unsigned(endpoint.straight.meta.endpoint_url, "OPTIONS", f"/{BUCKET}{path}", headers)
    else:
        assert found == (403, {})


def test_a_browser_may_read_why_it_was_refused(rules, endpoint, sides):
    status, found = unsigned(endpoint.proxy.endpoint, "GET", f"/{sides[1].bucket}/model", {"Origin": ORIGINS[0]})
    assert (status, found.get("access-control-allow-origin")) == (403, ORIGINS[0])
