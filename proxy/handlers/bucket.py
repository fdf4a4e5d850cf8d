"""Calls on buckets themselves."""

from __future__ import annotations

from aiohttp import web

from s4weights.proxy.context import Context, iso_date
from s4weights.proxy.errors import S3Error

from .forward import forward


async def list_buckets(context: Context) -> web.StreamResponse:
    """ListBuckets."""
    buckets = await context.upstream.list_buckets()
    rows = [{"Name": bucket.name, "CreationDate": iso_date(bucket.created)} for bucket in buckets]
    return context.xml("ListAllMyBucketsResult", {"Owner": OWNER, "Buckets": {"Bucket": rows}})


async def create_bucket(context: Context) -> web.StreamResponse:
    """CreateBucket. A location in the body is the bucket's own business."""
    await context.read_document()
    await context.upstream.create_bucket(context.bucket)
    return context.empty(200, {"Location": f"/{context.bucket}"})


async def head_bucket(context: Context) -> web.StreamResponse:
    """HeadBucket."""
    await context.upstream.head_bucket(context.bucket)
    return context.empty(200)


async def delete_bucket(context: Context) -> web.StreamResponse:
    """DeleteBucket."""
    await context.upstream.delete_bucket(context.bucket)
    return context.empty(204)


async def get_bucket_location(context: Context) -> web.StreamResponse:
    """GetBucketLocation: the bucket's own answer; a directory answers as a bucket in us-east-1 does."""
    try:
        return await forward(context)
    except S3Error as error:
        if error.code != "NotImplemented":
            raise
    await context.upstream.head_bucket(context.bucket)
    return context.xml("LocationConstraint", {})


# What S3 shows of an owner; the proxy knows one user, itself.
OWNER = {"ID": "s4weights", "DisplayName": "s4weights"}
