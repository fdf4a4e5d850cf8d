"""s4weights repack."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from s4weights.codec.errors import FormatError
from s4weights.codec.types import Level
from s4weights.proxy.errors import S3Error

from .buckets import add_arguments, objects_below, run_on_bucket
from .output import printable, size

if TYPE_CHECKING:
    from s4weights.proxy.objects.objects import Objects


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "repack",
        help="write containers again, each standing alone",
        description="Write every container under a prefix again in place: without bases, at the level asked for. Body, ETag, "
        "metadata and Last-Modified stay. An object with tags, a lock, a storage class or a redirect is left as it is.",
        epilog="examples:\n  s4weights repack bucket/run/checkpoint-500/ --level small --upstream s3://us-east-1",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, "BUCKET[/PREFIX]")
    parser.add_argument("--level", default=Level.BALANCED.value, choices=[level.value for level in Level])
    parser.add_argument("--dry-run", action="store_true", help="only say which objects")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Repack what is under a prefix."""
    work = partial(_repack, dry_run=options.dry_run, as_json=options.json)
    return run_on_bucket(options, work, level=options.level)


async def _repack(objects: Objects, bucket: str, prefix: str, *, dry_run: bool, as_json: bool) -> int:
    failed = 0
    # All names first: what is written again would come again in a listing under way.
    for key in [entry.key async for entry in objects_below(objects, bucket, prefix)]:
        row: dict[str, Any] = {"key": key}
        try:
            found = await objects.resolve_surely(bucket, key)
            if not found.is_container:
                continue
            row["stored_bytes"] = found.stored.size
            if not dry_run:
                row["done"] = await objects.rebaser.write_again(found)
                row["new_bytes"] = (await objects.resolve(bucket, key)).stored.size
        except (FormatError, S3Error) as error:
            failed += 1
            row["fault"] = str(error)
        sys.stdout.write((json.dumps(row) if as_json else _line(row)) + "\n")
    return 1 if failed else 0


def _line(row: dict[str, Any]) -> str:
    name = printable(row["key"])
    if "fault" in row:
        return f"{name}: {printable(row['fault'])}"
    if "done" not in row:
        return f"{name}: {size(row['stored_bytes'])}"
    if not row["done"]:
        return f"{name}: left as it is"
    return f"{name}: {size(row['stored_bytes'])} -> {size(row['new_bytes'])}"
