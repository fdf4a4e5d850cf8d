"""s4weights explain."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from s4weights.codec.container import BaseBody, read_bases
from s4weights.codec.errors import FormatError, MissingBase

from .buckets import add_arguments, run_on_bucket
from .output import counted, printable, size

if TYPE_CHECKING:
    from s4weights.proxy.objects.objects import Objects


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explain",
        help="what an object is stored as, what it needs and who needs it",
        description="Show the chain of bases behind an object, where each of them lies now, how many objects are pinned to it, "
        "and what a restore reads.",
        epilog="examples:\n  s4weights explain bucket/run/checkpoint-500/model.safetensors --upstream s3://us-east-1",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, "BUCKET/KEY")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Explain one object."""
    return run_on_bucket(options, partial(_explain, as_json=options.json))


async def _explain(objects: Objects, bucket: str, key: str, *, as_json: bool) -> int:
    from s4weights.proxy.lineage.names import pins_of
    from s4weights.proxy.lineage.perform import list_keys
    from s4weights.proxy.objects.occupants import content, plain_bytes, restore_bytes

    found = await objects.resolve_surely(bucket, key)
    about: dict[str, Any] = {"key": key, "logical_bytes": found.info.size, "stored_bytes": found.stored.size}
    chain: list[dict[str, Any]] = []
    if found.tail is not None and found.tail.index is not None:
        index = found.tail.index.about
        body = content(found.tail.trailer.digest, found.info.size)
        restore, plain = restore_bytes(index, found.stored.size), plain_bytes(index, found.stored.size)
        about |= {
            "writer": index.get("writer"),
            "kind": index.get("kind"),
            "pins": len(await list_keys(objects.store.upstream, bucket, pins_of(body))) if body is not None else 0,
            "restore_bytes": restore,
            "restore_ratio": round(restore / plain, 3),
        }
        chain = await _chain(objects, bucket, read_bases(index))
    if as_json:
        sys.stdout.write(json.dumps({**about, "bases": chain}) + "\n")
    else:
        _print(about, chain)
    return 1 if any("fault" in one for one in chain) else 0


async def _chain(objects: Objects, bucket: str, bases: tuple[BaseBody, ...]) -> list[dict[str, Any]]:
    """Bases, and theirs, each once."""
    chain: list[dict[str, Any]] = []
    waiting = list(bases)
    while waiting:
        base = waiting.pop(0)
        row: dict[str, Any] = {"key": base.key, "logical_bytes": base.size, "depth": base.depth}
        try:
            container = await objects.store.lineage.bases.open(bucket, base)
            row["found_at"] = container.where
            waiting.extend(container.bases)
        except MissingBase as error:
            row["fault"] = str(error)
        except FormatError as error:
            row["fault"] = f"damaged: {error}"
        chain.append(row)
    return chain


def _print(about: dict[str, Any], chain: list[dict[str, Any]]) -> None:
    write = sys.stdout.write
    write(f"{printable(about['key'])}: {size(about['logical_bytes'])} logical, {size(about['stored_bytes'])} stored\n")
    if "restore_bytes" not in about:
        write("  not a container: stored as it was sent\n")
        return
    pinned = counted(about["pins"], "object is", "objects are")
    write(f"  {about['kind']}, written by {about['writer']}; {pinned} pinned to it\n")
    write(
        f"  a restore reads {size(about['restore_bytes'])}, {about['restore_ratio']:.2f} times a container without bases\n"
    )
    for row in chain:
        place = printable(row.get("fault") or f"found at {row['found_at']}")
        write(f"  needs {printable(row['key'])} ({size(row['logical_bytes'])}): {place}\n")
