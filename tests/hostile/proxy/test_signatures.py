"""Signatures that are forged, expired, replayed on something else, cut short and mixed, in every form that S3 knows.

A request that is repeated as it is within its time is the same request: SigV4 has nothing against it, nor has S3.
"""

from __future__ import annotations

import hashlib

import pytest

from tests.proxy.handlers.conftest import ACCESS_KEY, BUCKET, SECRET_KEY

from .signing import UNSIGNED_TRAILER, Signer, code_of, refused, sent

PATH = f"/{BUCKET}/k"
BODY = b"x" * 20_000
TOKEN = "hush-session-token"


# In the header


async def test_a_right_header_is_taken(service, signer):
    assert await sent(service, "PUT", PATH, signer.headers("PUT", PATH, {}).headers, BODY) == 200


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace("Signature=", "Signature=0")[:-1],
        lambda line: line[:-1],
        lambda line: line[: line.rindex("=") + 1],
        lambda line: line[: line.rindex("=") + 1] + "0" * 64,
        lambda line: line.upper(),
        lambda line: line.replace("us-east-1", "eu-west-1"),
        lambda line: line.replace("/s3/", "/iam/"),
        lambda line: line.replace("aws4_request", "aws5_request"),
        lambda line: line.replace(";x-amz-date", ""),
        lambda line: line.replace("host;", ""),
        lambda line: line.replace(", Signature", "; Signature"),
        lambda line: line + ", Signature=" + "0" * 64,
        lambda line: "AWS4-HMAC-SHA256 " + line,
        lambda line: line.replace(ACCESS_KEY, ACCESS_KEY + "/" + ACCESS_KEY),
        lambda line: line.replace(ACCESS_KEY, ""),
        lambda line: "AWS4-HMAC-SHA256",
        lambda line: "Basic dXNlcjpoZWxsbw==",
        lambda line: "",
    ],
    ids=[
        *(
            "first digit",
            "cut",
            "empty",
            "zeros",
            "upper",
            "region",
            "service",
            "end",
            "date not signed",
            "host not signed",
        ),
        *("semicolon", "two", "twice", "key twice", "no key", "scheme alone", "basic", "nothing"),
    ],
)
async def test_a_header_that_was_changed(service, signer, change):
    headers = signer.headers("PUT", PATH, {}).headers
    headers["authorization"] = change(headers["authorization"])
    codes = (
        *(
            "SignatureDoesNotMatch",
            "AuthorizationHeaderMalformed",
            "InvalidRequest",
            "AccessDenied",
            "InvalidAccessKeyId",
        ),
    )
    await refused(service, "PUT", PATH, headers, BODY, *codes)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"secret": SECRET_KEY + " "}, "SignatureDoesNotMatch"),
        ({"secret": ""}, "SignatureDoesNotMatch"),
        ({"access_key": "AKIAOTHER"}, "InvalidAccessKeyId"),
        ({"age_s": 1_000}, "RequestTimeTooSkewed"),
        ({"age_s": -1_000}, "RequestTimeTooSkewed"),
        ({"token": "stolen"}, "InvalidToken"),
    ],
    ids=str,
)
async def test_a_signer_that_is_not_ours(service, signer, options, code):
    other = Signer(signer.host, **options)
    await refused(service, "PUT", PATH, other.headers("PUT", PATH, {}).headers, BODY, code)


@pytest.mark.parametrize(
    ("method", "path", "extra"),
    [
        ("DELETE", PATH, {}),
        ("PUT", f"/{BUCKET}/other", {}),
        ("PUT", f"/{BUCKET}/k/", {}),
        ("PUT", f"/{BUCKET}//k", {}),
        ("PUT", f"/{BUCKET}/./k", {}),
        ("PUT", f"{PATH}?acl", {}),
        ("PUT", f"{PATH}?uploadId=1&partNumber=1", {}),
        ("PUT", PATH, {"host": f"{BUCKET}.s3.test"}),
        ("PUT", PATH, {"x-amz-date": "20260101T000000Z"}),
        ("PUT", PATH, {"x-amz-content-sha256": UNSIGNED_TRAILER}),
        ("PUT", PATH, {"x-amz-content-sha256": "0" * 64}),
        ("PUT", PATH, {"x-amz-copy-source": f"/{BUCKET}/other"}),
        ("PUT", PATH, {"X-Amz-Meta-Late": "1"}),
    ],
    ids=str,
)
async def test_a_header_replayed_on_something_else(service, signer, method, path, extra):
    headers = {**signer.headers("PUT", PATH, {}).headers, **extra}
    codes = ("SignatureDoesNotMatch", "AccessDenied", "AuthorizationHeaderMalformed", "RequestTimeTooSkewed")
    await refused(service, method, path, headers, BODY, *codes)


async def test_a_signed_body_replayed_with_another(service, signer):
    headers = signer.headers("PUT", PATH, {}, hashlib.sha256(BODY).hexdigest()).headers
    await refused(service, "PUT", PATH, headers, BODY[:-1] + b"y", "XAmzContentSHA256Mismatch")


async def test_sigv4a_is_refused_by_name(service, signer):
    headers = signer.headers("PUT", PATH, {}).headers
    headers["authorization"] = headers["authorization"].replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256")
    status, _, answer = await service.send("PUT", PATH, {"content-length": "0", **headers})
    assert (status, code_of(answer), b"SigV4A" in answer) == (501, "NotImplemented", True)
    path = signer.presigned("GET", PATH).replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256")
    status, _, answer = await service.send("GET", path, {"host": signer.host})
    assert (status, code_of(answer), b"SigV4A" in answer) == (501, "NotImplemented", True)


# Presigned


async def test_a_right_presigned_url_is_taken(service, signer):
    assert await sent(service, "PUT", signer.presigned("PUT", PATH), {"host": signer.host}, BODY) == 200


@pytest.mark.parametrize(
    "change",
    [
        lambda url: url[:-1],
        lambda url: url[: url.rindex("=") + 1],
        lambda url: url[:-64] + "0" * 64,
        lambda url: url[:-64] + url[-64:].upper(),
        lambda url: url + "&X-Amz-Signature=" + "0" * 64,
        lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=600"),
        lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=-1"),
        lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=604801"),
        lambda url: url.replace("X-Amz-Expires=60&", ""),
        lambda url: url.replace("X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders="),
        lambda url: url.replace("X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Algorithm=none"),
        lambda url: url + "&acl",
        lambda url: url + "&uploadId=1&partNumber=1",
        lambda url: url.replace("/k?", "/other?"),
        lambda url: url.replace("X-Amz-Signature", "X-Amz-Signaturf"),
        lambda url: url.replace("X-Amz-", "x-amz-"),
        lambda url: url.partition("?")[0] + "?AWSAccessKeyId=AKIATEST&Signature=x&Expires=9999999999",
    ],
    ids=[
        *("cut", "empty", "zeros", "upper", "two", "longer", "negative", "eight days", "no end", "no headers", "none"),
        *("acl", "part", "key", "no signature", "lower case", "version 2"),
    ],
)
async def test_a_presigned_url_that_was_changed(service, signer, change):
    codes = (*("SignatureDoesNotMatch", "AuthorizationQueryParametersError", "AccessDenied", "InvalidRequest"),)
    await refused(service, "PUT", change(signer.presigned("PUT", PATH)), {"host": signer.host}, BODY, *codes)


@pytest.mark.parametrize("age_s", [61, -1_000])
async def test_a_presigned_url_out_of_its_time(service, signer, age_s):
    path = Signer(signer.host, age_s=age_s).presigned("PUT", PATH)
    await refused(service, "PUT", path, {"host": signer.host}, BODY, "AccessDenied")


async def test_two_ways_to_sign_in_one_request(service, signer):
    path = signer.presigned("PUT", PATH)
    headers = signer.headers("PUT", PATH, {}).headers
    await refused(service, "PUT", path, headers, BODY, "InvalidArgument")
    await refused(service, "PUT", path, {**headers, "authorization": "Bearer x"}, BODY, "InvalidArgument")
    # The signature of one way in the place of the other.
    mixed = path[:-64] + headers["authorization"][-64:]
    await refused(service, "PUT", mixed, {"host": signer.host}, BODY)


async def test_a_header_that_a_presigned_url_does_not_name(service, signer):
    for name in ("x-amz-copy-source", "x-amz-acl", "x-amz-meta-a", "x-amz-security-token"):
        headers = {"host": signer.host, name: f"/{BUCKET}/x"}
        await refused(service, "PUT", signer.presigned("PUT", PATH), headers, BODY, "AccessDenied")


# Session tokens


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text(
        f'[[key]]\naccess_key = "{ACCESS_KEY}"\nsecret_key = "{SECRET_KEY}"\nsession_token = "{TOKEN}"\n'
        '[[key]]\naccess_key = "AKIATEAM"\nsecret_key = "team"\nprefixes = ["training/team/"]\n'
    )
    path.chmod(0o600)
    return path


@pytest.fixture
def service_settings(request):
    if "keys" not in request.fixturenames:
        return {}
    return {"access_key": "", "secret_key": "", "credentials_file": str(request.getfixturevalue("keys"))}


@pytest.mark.parametrize("token", [None, "", "hush", TOKEN + "x", TOKEN.upper()])
async def test_a_session_token_that_is_not_the_keys(keys, service, signer, token):
    other = Signer(signer.host, token=token)
    await refused(service, "PUT", PATH, other.headers("PUT", PATH, {}).headers, BODY, "InvalidToken")
    await refused(service, "PUT", other.presigned("PUT", PATH), {"host": signer.host}, BODY, "InvalidToken")


async def test_a_session_token_belongs_to_its_signature(keys, service, signer):
    holder = Signer(signer.host, token=TOKEN)
    headers = holder.headers("PUT", PATH, {}).headers
    late = {**signer.headers("PUT", PATH, {}).headers, "x-amz-security-token": TOKEN}
    await refused(service, "PUT", PATH, late, BODY, "AccessDenied")  # not signed
    url = signer.presigned("PUT", PATH) + f"&X-Amz-Security-Token={TOKEN}"
    await refused(service, "PUT", url, {"host": signer.host}, BODY)
    assert await sent(service, "PUT", PATH, headers, BODY) == 200
    assert await sent(service, "PUT", holder.presigned("PUT", PATH), {"host": signer.host}, BODY) == 200


@pytest.mark.parametrize(
    "key",
    ["team/../k", "team/%2e%2e/k", "team/./../k", "team/..%2Fk", "team%2F..%2Fk", "team/..%5Ck", "teamwork", "team"],
)
async def test_a_key_of_a_prefix_does_not_leave_it(keys, service, signer, key):
    member = Signer(signer.host, secret="team", access_key="AKIATEAM")
    path = f"/{BUCKET}/{key}"
    await refused(service, "PUT", member.presigned("PUT", path), {"host": signer.host}, BODY, "AccessDenied")
    source = {"x-amz-copy-source": path}
    headers = member.headers("PUT", f"/{BUCKET}/team/copy", source).headers
    await refused(service, "PUT", f"/{BUCKET}/team/copy", headers, b"", "AccessDenied")
