"""What clients seldom send, and answers that take long."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from botocore.exceptions import ClientError

from s4weights.proxy.logs import TextFormatter

from .conftest import BUCKET


async def test_a_long_complete_begins_its_200_early_and_ends_it_with_the_result(service, monkeypatch):
    monkeypatch.setattr("s4weights.proxy.handlers.multipart._KEEP_ALIVE_S", 0.0)
    upload = {"Bucket": BUCKET, "Key": "k"}
    upload["UploadId"] = (await service.call("create_multipart_upload", **upload))["UploadId"]
    part = await service.call("upload_part", PartNumber=1, Body=b"data", **upload)
    wrong = {"Parts": [{"PartNumber": 1, "ETag": '"0"'}]}
    with pytest.raises(ClientError, match="InvalidPart"):
        await service.call("complete_multipart_upload", MultipartUpload=wrong, **upload)
    assert service.stored() == []
    right = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    done = await service.call("complete_multipart_upload", MultipartUpload=right, **upload)
    assert done["ResponseMetadata"]["HTTPHeaders"]["transfer-encoding"] == "chunked"
    got = await service.call("get_object", Bucket=BUCKET, Key="k")
    assert (got["Body"].read(), got["ETag"]) == (b"data", done["ETag"])


@pytest.mark.parametrize(
    "source", ["/training/a%20%2B%C3%BC", "training/a%20%2B%C3%BC", "training/a%20%2B%C3%BC?versionId=null"]
)
async def test_every_spelling_of_a_copy_source(service, source):
    await service.call("put_object", Bucket=BUCKET, Key="a +ü", Body=b"data")
    headers = service.signed("PUT", f"/{BUCKET}/copy", {"x-amz-copy-source": source, "content-length": "0"})
    status, _, body = await service.send("PUT", f"/{BUCKET}/copy", headers)
    assert status == 200, body
    assert (await service.call("get_object", Bucket=BUCKET, Key="copy"))["Body"].read() == b"data"


async def test_our_own_keys_cannot_be_copied_out(service):
    own = {"Bucket": BUCKET, "Key": ".s4weights/pins/x"}
    with pytest.raises(ClientError, match="AccessDenied"):
        await service.call("copy_object", Bucket=BUCKET, Key="copy", CopySource=own)


async def test_an_object_copied_onto_itself_with_new_metadata(service):
    own = {"Bucket": BUCKET, "Key": "k"}
    await service.call("put_object", Body=b"data", Metadata={"step": "1"}, **own)
    await service.call("copy_object", CopySource=own, Metadata={"step": "2"}, MetadataDirective="REPLACE", **own)
    got = await service.call("get_object", **own)
    assert (got["Body"].read(), got["Metadata"]) == (b"data", {"step": "2"})


async def test_a_quiet_delete_names_failures_only(service):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=b"x")
    keys = [{"Key": "k"}, {"Key": ".s4weights/x"}]
    answer = await service.call("delete_objects", Bucket=BUCKET, Delete={"Objects": keys, "Quiet": True})
    assert "Deleted" not in answer
    assert [row["Key"] for row in answer["Errors"]] == [".s4weights/x"]
    assert service.stored() == []


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"no xml",
        b"<Delete></Delete>",
        b"<Delete><Object></Object></Delete>",
        b'<!DOCTYPE x [<!ENTITY e "e">]><Delete><Object><Key>&e;</Key></Object></Delete>',
        b"<Delete>" + b"<Object><Key>k</Key></Object>" * 1001 + b"</Delete>",
    ],
    ids=["empty", "text", "none", "no key", "entity", "1001"],
)
async def test_a_delete_that_cannot_be_read_deletes_nothing(service, document):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=b"x")
    path = f"/{BUCKET}?delete"
    headers = service.signed("POST", path, {"content-length": str(len(document))})
    status, _, body = await service.send("POST", path, headers, document)
    assert (status, ElementTree.fromstring(body).findtext("Code")) == (400, "MalformedXML")
    assert service.stored() == ["k"]


@pytest.mark.parametrize("key", ["missing", ""])
async def test_refusals_of_head_have_no_body(service, key):
    path = f"/not-there/{key}"
    status, headers, body = await service.send("HEAD", path, service.signed("HEAD", path))
    assert (status, body) == (404, b"")
    assert headers["x-amz-request-id"]


async def test_not_modified_has_no_body_and_says_which(service):
    put = await service.call("put_object", Bucket=BUCKET, Key="k", Body=b"data")
    headers = service.signed("GET", f"/{BUCKET}/k", {"if-none-match": put["ETag"]})
    status, answer, body = await service.send("GET", f"/{BUCKET}/k", headers)
    assert (status, answer["etag"], body) == (304, put["ETag"], b"")


async def test_a_rename_does_not_empty_the_object(service):
    for key in ("k", "other"):
        await service.call("put_object", Bucket=BUCKET, Key=key, Body=b"data")
    path = f"/{BUCKET}/k?renameObject"
    headers = service.signed("PUT", path, {"content-length": "0", "x-amz-rename-source": "/other"})
    assert (await service.send("PUT", path, headers))[0] == 501
    assert (await service.call("get_object", Bucket=BUCKET, Key="k"))["Body"].read() == b"data"


async def test_a_fault_of_our_own_is_an_internal_error_with_its_id_in_the_log(service, monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("a fault")

    monkeypatch.setattr("s4weights.proxy.objects.objects.Objects.resolve", broken)
    caplog.handler.setFormatter(TextFormatter())
    headers = service.signed("GET", f"/{BUCKET}/k")
    status, answer, body = await service.send("GET", f"/{BUCKET}/k", headers)
    assert (status, ElementTree.fromstring(body).findtext("Code")) == (500, "InternalError")
    assert b"a fault" not in body
    assert f"[{answer['x-amz-request-id']}] GetObject failed\nTraceback" in caplog.text
