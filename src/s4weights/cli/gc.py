"""s4weights gc."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from s4weights.proxy.lineage.timing import DELAYS

from .buckets import add_arguments, run_on_bucket
from .output import counted, natural, printable, size

if TYPE_CHECKING:
    from s4weights.proxy.objects.objects import Objects


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "gc",
        help="take away what processes that died left in a bucket",
        description="Remove pins of objects that are gone, tombstones of removals that never ended, and hidden bases that "
        f"nobody needs, where they are older than the grace period ({DELAYS.grace.days} days); pin again what was copied past "
        "the proxy. Proxies may be at work meanwhile.",
        epilog="examples:\n  s4weights gc bucket --upstream s3://us-east-1 --dry-run",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, "BUCKET")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--grace-days",
        type=natural,
        default=DELAYS.grace.days,
        metavar="N",
        help="less only where no proxy has been at work on the bucket for so long",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Sweep one bucket."""
    grace = timedelta(days=options.grace_days)
    return run_on_bucket(options, partial(_sweep, grace=grace, dry_run=options.dry_run, as_json=options.json))


async def _sweep(objects: Objects, bucket: str, _: str, *, grace: timedelta, dry_run: bool, as_json: bool) -> int:
    from s4weights.proxy.objects.collector import Collector

    collector = Collector(objects.store.upstream, objects.store.guard, grace)
    done = freed_bytes = 0
    async for one in collector.sweep(bucket, dry_run=dry_run):
        done += 1
        freed_bytes += one.bytes
        if as_json:
            sys.stdout.write(json.dumps({"deed": one.deed, "key": one.key, "bytes": one.bytes}) + "\n")
        else:
            sys.stdout.write(f"{one.deed}: {printable(one.key)}\n")
    if as_json:
        sys.stdout.write(json.dumps({"done": done, "freed_bytes": freed_bytes, "dry_run": dry_run}) + "\n")
    else:
        sys.stdout.write(
            f"{counted(done, 'thing', 'things')}{' would be' if dry_run else ''} done, {size(freed_bytes)} freed\n"
        )
    return 0
