"""A form is taken where its policy is signed by a key we know, has not expired, and allows every field."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from s4weights.proxy.auth.canonical import sign, signing_key
from s4weights.proxy.auth.credentials import Credential, CredentialStore
from s4weights.proxy.auth.post_policy import verify_form
from s4weights.proxy.errors import S3Error

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KNOWN = CredentialStore([Credential("AKIA", "secret")])
SCOPE = "20260101/us-east-1/s3/aws4_request"
SIGNED = {"x-amz-algorithm": "AWS4-HMAC-SHA256", "x-amz-credential": f"AKIA/{SCOPE}", "x-amz-date": "20260101T115900Z"}


def form(conditions, *, expires_s=60, secret="secret", document=None, **fields):
    named = [{name: value} for name, value in SIGNED.items()]
    moment = (NOW + timedelta(seconds=expires_s)).isoformat()
    document = document or json.dumps({"expiration": moment, "conditions": [*conditions, *named]})
    policy = base64.b64encode(document.encode()).decode()
    shown = {name.replace("_", "-"): value for name, value in fields.items()}
    return {**SIGNED, "policy": policy, "x-amz-signature": sign(signing_key(secret, SCOPE), policy), **shown}


BUCKET = {"bucket": "training"}


def verify(fields, bucket="training"):
    return verify_form(fields, bucket, KNOWN, NOW)


def test_a_form_that_keeps_to_its_policy():
    conditions = [
        BUCKET,
        ["starts-with", "$key", "user/"],
        ["eq", "$acl", "private"],
        ["starts-with", "$Content-Type", ""],
        ["Content-Length-Range", 10, "1000"],
        {"x-amz-meta-Run": "7"},
    ]
    policy = verify(
        form(conditions, key="user/a", acl="private", content_type="image/png", x_amz_meta_run="7", x_ignore_me="1")
    )
    assert (policy.credential.access_key, policy.min_bytes, policy.max_bytes) == ("AKIA", 10, 1000)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (form([BUCKET, {"key": "a"}], key="b"), "AccessDenied: .*Policy Condition failed"),
        (form([BUCKET, ["starts-with", "$key", "user/"]], key="usera"), "AccessDenied"),
        (form([BUCKET, {"key": "a"}], key="a", acl="public-read"), "AccessDenied: .*Extra input fields: acl"),
        (form([{"bucket": "other"}, {"key": "a"}], key="a"), "AccessDenied"),
        (form([BUCKET, {"key": "a"}], key="a", expires_s=-1), "AccessDenied: .*expired"),
        (form([BUCKET, {"key": "a"}], key="a", secret="another"), "SignatureDoesNotMatch"),
        (form([BUCKET, {"key": "a"}], key="a") | {"x-amz-signature": "ü"}, "SignatureDoesNotMatch"),
        (form([BUCKET, {"key": "a"}], key="a") | {"x-amz-credential": f"OTHER/{SCOPE}"}, "InvalidAccessKeyId"),
        (form([BUCKET, {"key": "a"}], key="a") | {"x-amz-credential": "AKIA/20260101"}, "InvalidArgument"),
        (form([BUCKET, {"key": "a"}], key="a") | {"x-amz-date": "20250101T000000Z"}, "InvalidArgument"),
        (form([BUCKET, {"key": "a"}], key="a") | {"x-amz-algorithm": "AWS4-HMAC-SHA1"}, "InvalidArgument"),
        (form([BUCKET, {"key": "a"}], key="a") | {"x-amz-security-token": "t"}, "InvalidToken"),
        (
            {"key": "a", "awsaccesskeyid": "AKIA", "signature": "x", "policy": "x"},
            "InvalidRequest: Signature version 2",
        ),
        ({"key": "a"}, "AccessDenied"),
        ({"key": "a", "policy": "x"}, "InvalidArgument: .*x-amz-algorithm"),
        *[
            (form([], document=document), "InvalidPolicyDocument")
            for document in (
                "no json",
                "[]",
                "[" * 100_000,
                '{"conditions": []}',
                '{"expiration": 7, "conditions": []}',
                '{"expiration": "2030-01-01T00:00:00", "conditions": []}',
                '{"expiration": "2030-01-01T00:00:00Z"}',
                '{"expiration": "2030-01-01T00:00:00Z", "conditions": {}}',
                '{"expiration": "2030-01-01T00:00:00Z", "conditions": [["ends-with", "$key", "x"]]}',
                '{"expiration": "2030-01-01T00:00:00Z", "conditions": [["eq", "key", "x"]]}',
                '{"expiration": "2030-01-01T00:00:00Z", "conditions": [{"a": "b", "c": "d"}]}',
                '{"expiration": "2030-01-01T00:00:00Z", "conditions": [["content-length-range", "x", 7]]}',
                '{"expiration": "2030-01-01T00:00:00Z", "conditions": ["$key"]}',
            )
        ],
    ],
)
def test_a_form_that_does_not(fields, code):
    with pytest.raises(S3Error, match=code):
        verify(fields)


def test_a_policy_changed_by_one_byte_is_refused():
    fields = form([BUCKET, {"key": "a"}], key="a")
    fields["policy"] = fields["policy"][:-4] + "AAA="
    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        verify(fields)
