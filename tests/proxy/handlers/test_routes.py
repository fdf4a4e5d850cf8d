"""Every call that S3 knows finds its own handler, or is passed on; none is taken for another."""

from __future__ import annotations

import botocore.session
import pytest
from aiohttp.test_utils import make_mocked_request

from s4weights.proxy.context import Context, read_headers
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.query import read_query
from s4weights.proxy.routes import find_handler

MODEL = botocore.session.get_session().get_service_model("s3")
ANSWERED = {
    *("ListBuckets", "CreateBucket", "HeadBucket", "DeleteBucket", "GetBucketLocation"),
    *("ListObjects", "ListObjectsV2", "ListObjectVersions", "ListMultipartUploads", "DeleteObjects"),
    *("GetObject", "GetObjectAttributes", "HeadObject", "PutObject", "CopyObject", "DeleteObject"),
    *("CreateMultipartUpload", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload"),
    *("AbortMultipartUpload", "ListParts"),
}
# Another host or none of S3's own: ListDirectoryBuckets looks like ListBuckets, Object Lambda is not S3.
NOT_SENT_HERE = {"ListDirectoryBuckets", "WriteGetObjectResponse"}
# Its answer would be keys of the proxy's own.
REFUSED = {"CreateSession"}


def operation(method: str, path: str, **headers: str) -> str:
    request = make_mocked_request(
        method, path, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )
    path, _, query = path.partition("?")
    _, bucket, key = [*path.split("/", 2), ""][:3]
    context = Context(request, None, bucket, key, path, query, read_headers(request), read_query(query))
    return find_handler(context)[0]


def call(name: str) -> str:
    """The operation that botocore's request of this name arrives at."""
    model = MODEL.operation_model(name)
    path = model.http["requestUri"].replace("{Bucket}", "training").replace("{Key+}", "a/k")
    shape = model.input_shape
    shapes = [shape.members[member].serialization for member in shape.required_members] if shape else []
    for place in shapes:
        if place.get("location") == "querystring":
            path += f"{'&' if '?' in path else '?'}{place['name']}=1"
    headers = {place["name"]: "1" for place in shapes if place.get("location") == "header"}
    return operation(model.http["method"], path, **headers)


@pytest.mark.parametrize("name", sorted(ANSWERED))
def test_calls_of_the_data_path_are_answered(name):
    assert call(name) == name


@pytest.mark.parametrize("name", sorted(set(MODEL.operation_names) - ANSWERED - NOT_SENT_HERE - REFUSED))
def test_every_other_call_is_passed_on(name):
    assert call(name).startswith("Forward.")


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/training/k?aCallOfNextYear", "/training?aCallOfNextYear="])
def test_a_writing_call_that_we_do_not_know_is_passed_on(method, path):
    assert operation(method, path) == "Forward.other"


@pytest.mark.parametrize(
    "query", ["x-id=PutObject", "x-tool=", "X-Run", "versionId=", "X-Amz-Security-Token=", "tool=7"]
)
def test_parameters_that_name_no_call_change_nothing(query):
    assert operation("PUT", f"/training/k?{query}") == "PutObject"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *[("PUT", "/"), ("POST", "/training"), ("POST", "/training/k"), ("PATCH", "/b/k"), ("GET", "/b?session")],
        # Another server might take them for a call without a sub-resource.
        *[("GET", "/b/k?policy"), ("PUT", "/b/k?versioning="), ("DELETE", "/b/k?cors"), ("POST", "/b/k?delete=")],
        *[
            ("GET", "/b/k?uploads"),
            ("DELETE", "/b?acl"),
            ("PUT", "/b?policyStatus"),
            ("POST", "/b?policy"),
            ("HEAD", "/b/k?acl"),
        ],
    ],
)
def test_methods_without_a_call_are_refused(method, path):
    with pytest.raises(S3Error) as error:
        operation(method, path)
    assert (error.value.code, error.value.status) == ("MethodNotAllowed", 405)


def test_a_call_that_we_do_not_know_is_not_hidden_by_one_that_we_know():
    assert operation("PUT", "/training/k?tagging&aCallOfNextYear") == "Forward.other"
    assert operation("POST", "/training/k?restore&versionId=") == "Forward.restore"


def test_two_calls_in_one_are_refused():
    with pytest.raises(S3Error, match="Conflicting query string parameters: acl, uploadId"):
        operation("PUT", "/training/k?uploadId=1&partNumber=1&acl")
