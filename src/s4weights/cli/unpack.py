"""s4weights unpack."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from s4weights.bodies import SUFFIX
from s4weights.codec.errors import ConfigError
from s4weights.engine import open_engine
from s4weights.files import unpack_file
from s4weights.restore import Restored, plan, restore_all

from .output import print_report, printable, progress_bar, size
from .settings import add_engine

_EPILOG: Final = """\
examples:
  s4weights unpack model.safetensors.s4w
  s4weights unpack object-from-the-bucket -o model.pt
  s4weights unpack -r ./synced-bucket ./restored
  s4weights unpack -r s3://bucket/checkpoints/ ./restored   # straight from the bucket, needs boto3

With -r every container is decoded, everything else is copied as it is, and so is what is named *.s4w. A file that fails is
named, the others are written all the same, and the exit code is 1.
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "unpack",
        help="containers to the files they were made of",
        description="Write the body of a container. Needs no server and no GPU; every hash is checked.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="with -r: a folder, or s3://BUCKET/PREFIX")
    parser.add_argument("target", type=Path, nargs="?", metavar="TARGET", help="with -r: the folder to write to")
    parser.add_argument("-r", "--recursive", action="store_true", help="everything below FILE, to TARGET")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help=f"by default FILE without {SUFFIX}")
    add_engine(parser)
    parser.add_argument(
        "--base",
        type=Path,
        action="append",
        default=[],
        metavar="BASE",
        help="a body that FILE needs, or its container; those beside FILE are found by name",
    )
    parser.add_argument("--force", action="store_true", help="replace what exists")
    parser.add_argument("--json", action="store_true", help="one object a file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Unpack one file, or all of a place."""
    target: Path | None = options.output or options.target
    if options.output is not None and options.target is not None:
        raise ConfigError("expected TARGET or -o, found both")
    return _run_all(options, target) if options.recursive else _run_one(options, target)


def _run_one(options: argparse.Namespace, target: Path | None) -> int:
    source = Path(options.file)
    if source.is_dir():
        raise IsADirectoryError(f"{source}: expected a file, found a directory (-r unpacks all of it)")
    if target is None and source.suffix != SUFFIX:
        raise ConfigError(f"{source}: expected a name that ends in {SUFFIX}; say where to write with -o")
    target = target or source.with_suffix("")
    with progress_bar(f"unpack {source.name}", source.stat().st_size) as progress:
        report = unpack_file(
            source,
            target,
            engine=open_engine(options.engine, one_by_one=True),
            bases=options.base,
            force=options.force,
            progress=progress,
        )
    print_report(report, str(source), str(target), as_json=options.json)
    return 0


def _run_all(options: argparse.Namespace, target: Path | None) -> int:
    if target is None:
        raise ConfigError("-r: expected the folder to write to, found none")
    copied = plan(options.file, target)
    done: list[Restored] = []
    with progress_bar(f"unpack {options.file}", sum(one.source.size for one in copied.plans)) as progress:
        engine = open_engine(options.engine, one_by_one=True)
        for one in restore_all(copied, target, engine=engine, force=options.force, progress=progress):
            done.append(one)
            _print_one(one, as_json=options.json)
    failed = sum(one.report is None for one in done)
    if not options.json:
        reports = [one.report for one in done if one.report is not None]
        decoded = sum(report.kind == "container" for report in reports)
        logical, stored = (sum(getattr(one, f"{kind}_bytes") for one in reports) for kind in ("logical", "stored"))
        sys.stdout.write(
            f"{target}: {decoded} decoded and verified, {len(reports) - decoded} copied, {failed} failed; "
            f"{size(logical)} out of {size(stored)}\n"
        )
    return 1 if failed else 0


def _print_one(one: Restored, *, as_json: bool) -> None:
    if as_json:
        fields = asdict(one.report) if one.report is not None else {"error": one.error}
        sys.stdout.write(json.dumps({"source": one.source, "target": one.target, **fields}) + "\n")
    elif one.report is None:
        sys.stderr.write(f"{printable(one.source)}: {printable(one.error)}\n")
