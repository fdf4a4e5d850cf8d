"""What the bucket answers becomes S3's error for the client, unless it is about the proxy itself."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.bucket.faults import translated


def answer(code: str, status: int, headers: dict[str, str] | None = None) -> ClientError:
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers or {}}
    return ClientError({"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": metadata}, "GetObject")


def raised(error: Exception) -> Exception:
    with pytest.raises((S3Error, UpstreamError)) as found, translated("GetObject b/k"):
        raise error
    return found.value


@pytest.mark.parametrize(
    "code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "RequestTimeTooSkewed", "InvalidToken"]
)
def test_a_client_is_not_told_that_its_signature_is_wrong_where_ours_is(code):
    assert isinstance(raised(answer(code, 403)), UpstreamError)


def test_what_is_about_the_object_is_passed_on():
    error = raised(answer("404", 404, {"x-amz-delete-marker": "true", "x-amz-version-id": "v", "server": "x"}))
    assert isinstance(error, S3Error)
    assert (error.code, error.status) == ("NoSuchKey", 404)
    assert error.headers == {"x-amz-delete-marker": "true", "x-amz-version-id": "v"}
    error = raised(answer("AccessDenied", 403))
    assert isinstance(error, S3Error)
    assert (error.code, error.status) == ("AccessDenied", 403)


@pytest.mark.parametrize(
    "error",
    [answer("SlowDown", 503), answer("500", 500), EndpointConnectionError(endpoint_url="http://x"), TimeoutError()],
)
def test_what_is_about_the_bucket_being_out_of_reach(error):
    assert isinstance(raised(error), UpstreamError)
