"""POST Object: a form with a signed policy, as browsers send it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from aiohttp import web

from s4weights.proxy.auth.post_policy import PostPolicy, verify_form
from s4weights.proxy.checksums.algorithms import (
    ALGORITHM_HEADER,
    TYPE_HEADER,
    announced_checksum,
    check_checksum,
    check_md5,
    decode_content_md5,
    encode,
    header_of,
    new_hasher,
)
from s4weights.proxy.checksums.plan import FULL_OBJECT
from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.address import MAX_KEY_BYTES
from s4weights.proxy.http.fields import check_header
from s4weights.proxy.http.form import Form, boundary_of
from s4weights.proxy.http.xml import parse_tagging
from s4weights.proxy.limits import GATHERED_BYTES, MAX_PUT_BYTES
from s4weights.proxy.objects.parts import PartBody
from s4weights.proxy.upstream.protocol import NO_CONDITIONS

from .attributes import check_key, object_headers

_STATUS: Final = {"200": 200, "201": 201}


def is_form(context: Context) -> bool:
    """Whether a request is a form whose fields, not its headers, carry the signature."""
    return (
        context.request.method == "POST"
        and bool(context.bucket)
        and not context.key
        and not context.query
        and "authorization" not in context.headers
        and boundary_of(context.headers.get("content-type", "")) is not None
    )


async def post_object(context: Context) -> web.StreamResponse:
    """Store the file of a form. It is taken whole first: only then its size is known, and its policy kept or not."""
    form = Form(await context.stream(), boundary_of(context.headers.get("content-type", "")) or "")
    fields = await form.read_fields()
    policy = await _policy(context, fields)
    key = fields.get("key", "").replace("${filename}", form.file_name)
    if not key:
        raise S3Error("InvalidArgument", "Bucket POST must contain a field named 'key'.", ArgumentName="key")
    if len(key.encode()) > MAX_KEY_BYTES:
        raise S3Error("KeyTooLongError", MaxSizeAllowed=str(MAX_KEY_BYTES))
    check_key(key)
    if policy is not None:
        policy.credential.grant.check("POST", "PostObject", context.bucket, key, {})
    headers = _headers(fields)
    most = MAX_PUT_BYTES if policy is None or policy.max_bytes is None else min(policy.max_bytes, MAX_PUT_BYTES)
    room = int(context.headers.get("content-length") or most)
    body = _FormFile(PartBody(context.objects.store, min(room, MAX_PUT_BYTES)), fields)
    try:
        await body.fill(form, most)
        if policy is not None and body.size < policy.min_bytes:
            raise S3Error("EntityTooSmall", ProposedSize=str(body.size), MinSizeAllowed=str(policy.min_bytes))
        stored = await context.objects.put(context.bucket, key, body, body.size, headers, NO_CONDITIONS)
    finally:
        body.drop()
    kind = {TYPE_HEADER: FULL_OBJECT} if body.checksums else {}
    return _answer(context, fields, key, stored.etag, {**stored.headers, **body.checksums, **kind})


async def _policy(context: Context, fields: Mapping[str, str]) -> PostPolicy | None:
    credentials = context.credentials
    if not credentials:
        return None
    return await credentials.checked(lambda: verify_form(fields, context.bucket, credentials))


def _headers(fields: Mapping[str, str]) -> dict[str, str]:
    """Those of the object. Raises: S3Error InvalidArgument, MalformedXML."""
    check_header("location", _redirect(fields))
    sent = dict(fields)
    if "acl" in fields:
        sent.setdefault("x-amz-acl", fields["acl"])
    if "tagging" in fields:
        sent["x-amz-tagging"] = urlencode(parse_tagging(fields["tagging"].encode()), quote_via=quote)
    return object_headers(sent)


def _redirect(fields: Mapping[str, str]) -> str:
    return fields.get("success_action_redirect") or fields.get("redirect") or ""


def _answer(
    context: Context, fields: Mapping[str, str], key: str, etag: str, stored: Mapping[str, str]
) -> web.StreamResponse:
    location = f"{context.origin}/{quote(context.bucket)}/{quote(key, safe='/-._~')}"
    headers = {"ETag": f'"{etag}"', "Location": location, **stored}
    target = _redirect(fields)
    if urlsplit(target).scheme in ("http", "https"):
        query = urlencode({"bucket": context.bucket, "key": key, "etag": f'"{etag}"'})
        return context.empty(303, {**headers, "Location": f"{target}{'&' if '?' in target else '?'}{query}"})
    status = _STATUS.get(fields.get("success_action_status", ""), 204)
    if status != 201:
        return context.empty(status, headers)
    tree = {"Location": location, "Bucket": context.bucket, "Key": key, "ETag": f'"{etag}"'}
    return context.xml("PostResponse", tree, status=201, headers=headers)


class _FormFile:
    """The file, in memory or on disk; a VerifiedBody once `fill` is done."""

    def __init__(self, kept: PartBody, fields: Mapping[str, str]) -> None:
        """fields: with the digests that the file must have. Raises: S3Error InvalidRequest, InvalidDigest."""
        self._kept = kept
        try:
            checksums = announced_checksum(fields)
            _check_algorithm(fields, checksums)
            self._expected_md5 = decode_content_md5(fields["content-md5"]) if "content-md5" in fields else None
        except S3Error:
            self.drop()
            raise
        self._expected = checksums
        self.size = 0
        self.gathered_bytes = GATHERED_BYTES
        self.md5 = b""
        self.checksums: Mapping[str, str] = {}
        self.announced: Mapping[str, str | None] = {name: encode(value) for name, value in checksums.items()}

    async def fill(self, form: Form, most: int) -> None:
        """Raises: S3Error EntityTooLarge, BadDigest."""
        md5 = hashlib.md5(usedforsecurity=False)
        hashers = {name: new_hasher(name) for name in self._expected}

        def update(piece: bytes) -> None:
            for hasher in (md5, *hashers.values()):
                hasher.update(piece)

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in form:
                self.size += len(piece)
                if self.size > most:
                    raise S3Error("EntityTooLarge", ProposedSize=str(self.size), MaxSizeAllowed=str(most))
                await asyncio.to_thread(update, piece)
                yield piece

        await self._kept.fill(pieces())
        self.md5 = md5.digest()
        if self._expected_md5 is not None:
            check_md5(self._expected_md5, self.md5)
        for name, expected in self._expected.items():
            check_checksum(name, expected, hashers[name].digest())
        self.checksums = {name: encode(value) for name, value in self._expected.items()}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._kept.chunks():
            yield chunk

    def drop(self) -> None:
        """Give memory or file back."""
        self._kept.drop()


def _check_algorithm(fields: Mapping[str, str], checksums: Mapping[str, bytes]) -> None:
    """Raises: S3Error InvalidRequest where a form names another algorithm than that of its checksum."""
    algorithm = fields.get(ALGORITHM_HEADER)
    if algorithm is not None and [header_of(algorithm)] != list(checksums):
        raise S3Error(
            "InvalidRequest", f"{ALGORITHM_HEADER} is {algorithm}, and no such checksum is a field of the form."
        )
