"""SigV4: what botocore signs is accepted, everything else is refused by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from s4weights.proxy.auth.credentials import Credential, CredentialStore
from s4weights.proxy.auth.sigv4 import verify
from s4weights.proxy.errors import S3Error

HOST = "proxy.test:9000"
KNOWN = CredentialStore([Credential("AKIA", "secret"), Credential("ASIA", "other", "token+/=")])


def signed(method="GET", target="/b/k", headers=None, credentials=None):
    """(path, query, headers) as they would be on the wire."""
    request = AWSRequest(
        method=method, url=f"http://{HOST}{target}", headers={"x-amz-meta-a": " two  words ", **(headers or {})}
    )
    S3SigV4Auth(credentials or Credentials("AKIA", "secret"), "s3", "us-east-1").add_auth(request)
    path, _, query = target.partition("?")
    return path, query, [*request.headers.items(), ("Host", HOST)]


def presigned(method="GET", target="/b/k", expires=60, credentials=None):
    request = AWSRequest(method=method, url=f"http://{HOST}{target}")
    S3SigV4QueryAuth(credentials or Credentials("AKIA", "secret"), "s3", "us-east-1", expires).add_auth(request)
    path, _, query = request.url.removeprefix(f"http://{HOST}").partition("?")
    return path, query, [("Host", HOST)]


TARGETS = [
    "/",
    "/b",
    "/b?list-type=2&prefix=a%2Fb%20c&delimiter=%2F&start-after=",
    "/b/a%20b%2Bc%3Dd%26e",
    "/b/%C3%BC/%E2%82%AC",
    "/b/a//b/./../c",
    "/b/k?uploads",
    "/b/k?uploadId=x%2By&partNumber=1",
    "/b/~tilde-under_score.dot",
    "/b/star*paren(s)'quote!",
    "/b/percent%25",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", [signed, presigned])
def test_what_botocore_signs_is_accepted(target, way):
    path, query, headers = way("PUT", target)
    found = verify("PUT", path, query, headers, KNOWN)
    assert found.access_key == "AKIA"
    assert found.presigned is (way is presigned)
    assert "secret" not in repr(found)


@pytest.mark.parametrize("target", ["/b?a=1&a=0&A=2&aa=&=x", "/b?prefix=a%20b%2Bc&marker=%25&x"])
@pytest.mark.parametrize("way", [signed, presigned])
def test_queries_in_any_order_and_with_twins_are_accepted(target, way):
    path, query, headers = way("GET", target)
    verify("GET", path, "&".join(reversed(query.split("&"))), headers, KNOWN)


@pytest.mark.parametrize("value", ["", "a   b", " \t a\tb ", "x" * 2000, 'say "a  b"', "a,b ,c", "päß €"])
def test_any_header_value_is_accepted_as_it_was_signed(value):
    path, query, headers = signed("PUT", headers={"x-amz-meta-v": value, "content-type": value})
    verify("PUT", path, query, headers, KNOWN)
    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        verify("PUT", path, query, changed(headers, "x-amz-meta-v", lambda old: old + "x"), KNOWN)


def test_a_header_that_comes_twice_is_signed_as_both():
    path, query, headers = signed(headers={"x-amz-meta-v": "one,two"})
    single = [(name, value) for name, value in headers if name.lower() != "x-amz-meta-v"]
    verify("GET", path, query, [*single, ("X-Amz-Meta-V", "one"), ("x-amz-meta-v", " two ")], KNOWN)
    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        verify("GET", path, query, [*single, ("x-amz-meta-v", "two"), ("x-amz-meta-v", "one")], KNOWN)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
@settings(max_examples=100, deadline=None)
def test_any_key_is_accepted(key):
    path, query, headers = signed("GET", "/b/" + quote(key, safe="/-._~"))
    verify("GET", path, query, headers, KNOWN)


@pytest.mark.parametrize("way", [signed, presigned])
def test_session_tokens(way):
    path, query, headers = way(credentials=Credentials("ASIA", "other", "token+/="))
    assert verify("GET", path, query, headers, KNOWN).access_key == "ASIA"
    path, query, headers = way(credentials=Credentials("ASIA", "other", "wrong"))
    with pytest.raises(S3Error, match="InvalidToken"):
        verify("GET", path, query, headers, KNOWN)
    path, query, headers = way(credentials=Credentials("ASIA", "other"))
    with pytest.raises(S3Error, match="InvalidToken"):
        verify("GET", path, query, headers, KNOWN)


def changed(headers, name, value):
    return [(known, value(old) if known.lower() == name else old) for known, old in headers]


@pytest.mark.parametrize(
    "change",
    [
        lambda method, path, query, headers: ("DELETE", path, query, headers),
        lambda method, path, query, headers: (method, path + "x", query, headers),
        lambda method, path, query, headers: (method, path, query + "&acl", headers),
        lambda method, path, query, headers: (method, path, query, changed(headers, "host", lambda _: "evil.test")),
        lambda method, path, query, headers: (method, path, query, changed(headers, "x-amz-meta-a", lambda _: "x")),
        lambda method, path, query, headers: (
            method, path, query, changed(headers, "x-amz-content-sha256", lambda _: "UNSIGNED-PAYLOAD"),
        ),
        lambda method, path, query, headers: (
            method, path, query, changed(headers, "authorization", lambda old: old.replace("us-east-1", "us-west-2")),
        ),
        lambda method, path, query, headers: (
            method, path, query, changed(headers, "authorization", lambda old: old[:-1] + ("0" if old[-1] != "0" else "1")),
        ),
        lambda method, path, query, headers: (
            method, path, query, changed(headers, "authorization", lambda old: old.replace("Signature=", "Signature=ff")),
        ),
    ],
)  # fmt: skip
def test_every_change_breaks_the_signature(change):
    path, query, headers = signed("GET", "/b/k?versionId=1")
    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        verify(*change("GET", path, query, headers), KNOWN)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("X-Amz-Expires=60", "X-Amz-Expires=61", "SignatureDoesNotMatch"),
        ("us-east-1", "us-west-2", "SignatureDoesNotMatch"),
        ("X-Amz-Signature=", "X-Amz-Signature=0", "SignatureDoesNotMatch"),
        ("X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=host%3Brange", "SignatureDoesNotMatch"),
        ("versionId=1", "versionId=2", "SignatureDoesNotMatch"),
        ("versionId=1", "versionId=1&response-content-type=a", "SignatureDoesNotMatch"),
        ("versionId=1&", "", "SignatureDoesNotMatch"),
        ("AKIA", "AKIB", "InvalidAccessKeyId"),
        ("X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=Host", "AuthorizationQueryParametersError"),
        ("X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=range", "AuthorizationQueryParametersError"),
        ("aws4_request", "aws5_request", "AuthorizationQueryParametersError"),
        ("%2Fs3%2F", "%2Fsts%2F", "AuthorizationQueryParametersError"),
        ("X-Amz-Date=2", "X-Amz-Date=3", "AuthorizationQueryParametersError"),
        ("X-Amz-Date=", "X-Amz-Day=", "AuthorizationQueryParametersError"),
        ("X-Amz-Signature=", "X-Amz-Sig=", "AuthorizationQueryParametersError"),
        ("HMAC-SHA256", "HMAC-MD5", "InvalidRequest"),
        ("HMAC-SHA256", "ECDSA-P256-SHA256", "NotImplemented"),
        ("X-Amz-Expires=60", "X-Amz-Expires=60&X-Amz-Security-Token=t", "InvalidToken"),
    ],
)
def test_every_change_breaks_a_presigned_url(old, new, code):
    path, query, headers = presigned("GET", "/b/k?versionId=1")
    assert old in query
    with pytest.raises(S3Error) as error:
        verify("GET", path, query.replace(old, new), headers, KNOWN)
    assert error.value.code == code


@pytest.mark.parametrize("name", ["X-Amz-Expires", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Algorithm"])
def test_a_second_value_does_not_stand_in_for_the_signed_one(name):
    path, query, headers = presigned()
    [signed_one] = [item for item in query.split("&") if item.startswith(name)]
    for doubled in (f"{query}&{signed_one}", f"{signed_one}&{query}"):
        with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
            verify("GET", path, doubled, headers, KNOWN)


def test_a_presigned_url_of_a_clock_that_is_far_ahead_is_not_valid_yet():
    path, query, headers = presigned(expires=604_800)
    with pytest.raises(S3Error, match="not valid yet"):
        verify("GET", path, query, headers, KNOWN, datetime.now(UTC) - timedelta(minutes=16))


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_clock_that_is_far_off(minutes):
    path, query, headers = signed()
    with pytest.raises(S3Error, match="RequestTimeTooSkewed"):
        verify("GET", path, query, headers, KNOWN, datetime.now(UTC) + timedelta(minutes=minutes))


def test_presigned_urls_expire():
    path, query, headers = presigned(expires=30)
    verify("GET", path, query, headers, KNOWN, datetime.now(UTC) + timedelta(seconds=28))
    with pytest.raises(S3Error, match="Request has expired"):
        verify("GET", path, query, headers, KNOWN, datetime.now(UTC) + timedelta(seconds=32))


@pytest.mark.parametrize("expires", ["604801", "-1", "x", "", "١", "0000086400999", "000001" + "9" * 5000])
def test_expiry_times_that_cannot_be(expires):
    path, query, headers = presigned()
    with pytest.raises(S3Error, match="AuthorizationQueryParametersError"):
        verify("GET", path, query.replace("X-Amz-Expires=60", f"X-Amz-Expires={expires}"), headers, KNOWN)


def test_a_url_that_is_valid_for_no_time_has_expired():
    path, query, headers = presigned(expires=0)
    with pytest.raises(S3Error, match="AccessDenied: Request has expired"):
        verify("GET", path, query, headers, KNOWN)


def test_a_header_that_was_not_signed_is_refused():
    path, query, headers = signed()
    with pytest.raises(S3Error, match="not signed: x-amz-acl"):
        verify("GET", path, query, [*headers, ("x-amz-acl", "public-read")], KNOWN)
    path, query, headers = presigned()
    with pytest.raises(S3Error, match="not signed: x-amz-copy-source"):
        verify("PUT", path, query, [*headers, ("x-amz-copy-source", "/b/secret")], KNOWN)


def test_two_signatures_are_one_too_many():
    _, query, _ = presigned()
    _, _, headers = signed()
    with pytest.raises(S3Error, match="Only one auth mechanism"):
        verify("GET", "/b/k", query, headers, KNOWN)


def test_nobody_is_refused():
    with pytest.raises(S3Error, match="AccessDenied"):
        verify("GET", "/b/k", "", [("Host", HOST)], KNOWN)


def test_rotated_keys_stay_valid_once():
    store = CredentialStore([Credential("one", "1")])
    store.rotate([Credential("two", "2")])
    assert store.find("one")
    assert store.find("two")
    store.rotate([Credential("three", "3")])
    assert store.find("one") is None


def test_no_repr_shows_a_secret():
    shown = repr(Credential("AKIA", "my-secret", "my-token"))
    assert "my-secret" not in shown
    assert "my-token" not in shown


@pytest.mark.parametrize("name", ["x-amz-meta-a", "x-amz-security-token", "authorization"])
def test_headers_that_are_not_utf_8_are_refused_by_name(name):
    path, query, headers = signed(credentials=Credentials("ASIA", "other", "token+/="))
    damage = lambda old: old.replace("/us-", "/\udcffus-") if "/us-" in old else old + "\udcff"  # noqa: E731
    with pytest.raises(S3Error, match="SignatureDoesNotMatch|InvalidToken|AuthorizationHeaderMalformed"):
        verify("GET", path, query, changed(headers, name, damage), KNOWN)


def test_losing_all_keys_does_not_open_the_door():
    store = CredentialStore([Credential("one", "1")])
    store.rotate([])
    assert store
    assert store.find("one")
