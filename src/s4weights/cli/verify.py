"""s4weights verify."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from s4weights.codec.container import HEADER_BYTES, read_bases
from s4weights.codec.errors import FormatError
from s4weights.proxy.errors import S3Error

from .buckets import add_arguments, objects_below, run_on_bucket
from .output import counted, printable, size

if TYPE_CHECKING:
    from s4weights.proxy.objects.objects import Objects
    from s4weights.proxy.objects.types import LogicalObject


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "verify",
        help="find damage in a bucket before a restore does",
        description="Look at every container: its index, and that each of its bases, and theirs, is there; and at the first "
        "bytes of what does not end as one: a container that was cut off begins as one. With --deep decode every byte and "
        "compare all hashes. Exit code 1 where anything is damaged (it is named, the rest is looked at), and where nothing "
        "lies under PREFIX.",
        epilog="examples:\n  s4weights verify bucket --upstream s3://us-east-1\n  s4weights verify bucket/run/ --deep --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, "BUCKET[/PREFIX]")
    parser.add_argument("--deep", action="store_true", help="read everything")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Verify one bucket, or part of it."""
    return run_on_bucket(options, partial(_verify, deep=options.deep, as_json=options.json))


async def _verify(objects: Objects, bucket: str, prefix: str, *, deep: bool, as_json: bool) -> int:
    containers = damaged = body_bytes = 0
    async for entry in objects_below(objects, bucket, prefix, at_least_bytes=HEADER_BYTES):
        try:
            found = await objects.resolve_surely(bucket, entry.key)
            if not found.is_container:
                continue
            containers += 1
            body_bytes += found.info.size
            await _check(objects, found, deep=deep)
            fault = None
        except (FormatError, S3Error) as error:
            damaged += 1
            fault = str(error)
        if as_json:
            sys.stdout.write(json.dumps({"key": entry.key, "ok": fault is None, "fault": fault}) + "\n")
        elif fault is not None:
            sys.stdout.write(f"{printable(entry.key)}: {printable(fault)}\n")
    if as_json:
        sys.stdout.write(json.dumps({"containers": containers, "damaged": damaged, "bytes": body_bytes}) + "\n")
    else:
        how = "every byte decoded and compared" if deep else "index and bases looked at"
        sys.stdout.write(
            f"{counted(containers, 'container', 'containers')} ({size(body_bytes)}), {damaged} damaged; {how}\n"
        )
    return 1 if damaged else 0


async def _check(objects: Objects, found: LogicalObject, *, deep: bool) -> None:
    if deep:
        async for _ in objects.read(found, 0, found.info.size):
            pass
    assert found.tail is not None
    assert found.tail.index is not None
    waiting = [(found.bucket, base) for base in read_bases(found.tail.index.about)]
    while waiting:
        bucket, base = waiting.pop()
        container = await objects.store.lineage.bases.open(bucket, base)
        waiting.extend((container.bucket, one) for one in container.bases)
