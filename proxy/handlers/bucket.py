"""Calls on buckets themselves."""

from __future__ import annotations

import contextlib
from typing import Final

from aiohttp import web

from s4weights.proxy.context import Context, iso_date
from s4weights.proxy.errors import S3Error

from .forward import forward_if_possible


async def list_buckets(context: Context) -> web.StreamResponse:
    """ListBuckets: those that the client may reach."""
    if not context.grant.prefixes and (answer := await forward_if_possible(context)) is not None:
        return answer
    buckets = [one for one in await context.upstream.list_buckets() if context.grant.shows_bucket(one.name)]
    rows = [{"Name": bucket.name, "CreationDate": iso_date(bucket.created)} for bucket in buckets]
    return context.xml("ListAllMyBucketsResult", {"Owner": OWNER, "Buckets": {"Bucket": rows}})


async def create_bucket(context: Context) -> web.StreamResponse:
    """CreateBucket, with its ACL, object lock and location; without a location in the bucket store's own region."""
    document = await context.read_document()
    headers = {name: value for name, value in context.headers.items() if name.startswith(_CREATE_HEADERS)}
    await context.upstream.create_bucket(context.bucket, headers, document)
    return context.empty(200, {"Location": f"/{context.bucket}"})


async def head_bucket(context: Context) -> web.StreamResponse:
    """HeadBucket."""
    if (answer := await forward_if_possible(context)) is not None:
        return answer
    await context.upstream.head_bucket(context.bucket)
    return context.empty(200)


async def delete_bucket(context: Context) -> web.StreamResponse:
    """DeleteBucket. What is kept there for dependents alone is for nobody once there are none."""
    with contextlib.suppress(S3Error):  # the bucket's own answer follows
        await context.objects.collector.clear_hidden(context.bucket)
    if (answer := await forward_if_possible(context)) is not None:
        return answer
    await context.upstream.delete_bucket(context.bucket)
    return context.empty(204)


async def get_bucket_location(context: Context) -> web.StreamResponse:
    """GetBucketLocation: the bucket's own answer; a directory answers as a bucket in us-east-1 does."""
    if (answer := await forward_if_possible(context)) is not None:
        return answer
    await context.upstream.head_bucket(context.bucket)
    return context.xml("LocationConstraint", {})


_CREATE_HEADERS: Final = ("x-amz-acl", "x-amz-grant-", "x-amz-bucket-object-lock-", "x-amz-object-ownership")
# What S3 shows of an owner; the proxy knows one user, itself.
OWNER = {"ID": "s4weights", "DisplayName": "s4weights"}
