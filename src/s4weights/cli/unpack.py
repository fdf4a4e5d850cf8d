"""s4weights unpack."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from s4weights.bodies import SUFFIX
from s4weights.codec.engines import choose_engine
from s4weights.codec.errors import ConfigError
from s4weights.files import unpack_file

from .output import print_report, progress_bar


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "unpack",
        help="a container to the file it was made of",
        description="Write the body of a container. Needs no server and no GPU; every hash is checked.",
        epilog="examples:\n  s4weights unpack model.safetensors.s4w\n  s4weights unpack object-from-the-bucket -o model.pt",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help=f"by default FILE without {SUFFIX}")
    parser.add_argument("--engine", default="auto", choices=("auto", "native", "reference"))
    parser.add_argument(
        "--base",
        type=Path,
        action="append",
        default=[],
        metavar="BASE",
        help="a body that FILE needs, or its container; those beside FILE are found by name",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT where it exists")
    parser.add_argument("--json", action="store_true", help="the report as one object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Unpack one file."""
    source: Path = options.file
    if options.output is None and source.suffix != SUFFIX:
        raise ConfigError(f"{source}: expected a name that ends in {SUFFIX}; say where to write with -o")
    target: Path = options.output or source.with_suffix("")
    with progress_bar(f"unpack {source.name}", source.stat().st_size) as progress:
        report = unpack_file(
            source,
            target,
            engine=choose_engine(options.engine),
            bases=options.base,
            force=options.force,
            progress=progress,
        )
    print_report(report, str(source), str(target), as_json=options.json)
    return 0
