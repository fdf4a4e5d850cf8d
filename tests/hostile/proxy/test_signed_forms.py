"""Signed forms that are forged, expired, replayed on something else, cut short and mixed."""

from __future__ import annotations

import pytest

from tests.proxy.handlers.test_post_object import post, signed

from .test_signatures import TOKEN, code_of


async def test_a_form_replayed_on_another_key_or_bucket_or_with_more(service):
    fields = signed(service, "k")
    for change in ({"key": "other"}, {"acl": "public-read"}, {"x-amz-meta-a": "1"}, {"tagging": "<Tagging/>"}):
        status, _, answer = await post(service, {**fields, **change}, b"x")
        assert (status, code_of(answer)) == (403, "AccessDenied"), change
    assert service.stored() == []
    assert (await post(service, fields, b"x"))[0] == 204


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        ({"x-amz-signature": "0" * 64}, ["SignatureDoesNotMatch"]),
        ({"x-amz-signature": ""}, ["InvalidArgument"]),
        ({"policy": "e30="}, ["SignatureDoesNotMatch"]),
        ({"policy": ""}, ["InvalidArgument"]),
        ({"x-amz-credential": "AKIATEST/20200101/us-east-1/s3/aws4_request"}, ["InvalidArgument", "AccessDenied"]),
        ({"x-amz-security-token": TOKEN}, ["InvalidToken"]),
        ({"x-amz-algorithm": "AWS4-ECDSA-P256-SHA256"}, ["InvalidArgument"]),
    ],
    ids=str,
)
async def test_a_form_whose_signature_was_changed(service, change, codes):
    status, _, answer = await post(service, {**signed(service, "k"), **change}, b"x")
    assert status in (400, 403)
    assert code_of(answer) in codes
    assert service.stored() == []


async def test_a_form_cut_short_before_its_signature(service):
    fields = signed(service, "k")
    for name in fields:
        status, _, answer = await post(service, {key: value for key, value in fields.items() if key != name}, b"x")
        assert status in (400, 403), (name, answer)
    assert service.stored() == []


async def test_a_form_out_of_its_time(service):
    fields = signed(service, "k", ExpiresIn=-1)
    status, _, answer = await post(service, fields, b"x")
    assert (status, code_of(answer)) == (403, "AccessDenied")
    assert service.stored() == []
