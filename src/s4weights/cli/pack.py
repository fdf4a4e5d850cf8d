"""s4weights pack."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from s4weights.bodies import SUFFIX
from s4weights.codec.types import Level
from s4weights.engine import open_engine
from s4weights.files import pack_file

from .output import natural, print_report, progress_bar
from .settings import add_engine


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "pack",
        help="a file to a container",
        description="Write FILE as a container: fewer bytes, every frame decoded again and compared.",
        epilog="examples:\n  s4weights pack model.safetensors\n  s4weights pack epoch-3.pt -o /backup/epoch-3.pt.s4w --json\n"
        "  s4weights pack epoch-4.pt --base epoch-3.pt.s4w",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help=f"by default FILE{SUFFIX}")
    add_engine(parser)
    parser.add_argument(
        "--level",
        choices=tuple(level.value for level in Level),
        default=Level.BALANCED.value,
        metavar="LEVEL",
        help="fast (never the bottleneck), balanced (default) or small (everything that gains)",
    )
    parser.add_argument("--threads", type=natural, default=0, metavar="N", help="one a processor by default")
    parser.add_argument(
        "--base",
        type=Path,
        action="append",
        default=[],
        metavar="BASE",
        help="an earlier FILE, or its container, to store only what differs from; it must be there when OUT is unpacked",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT where it exists")
    parser.add_argument("--json", action="store_true", help="the report as one object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Pack one file."""
    source: Path = options.file
    if source.is_dir():
        raise IsADirectoryError(f"{source}: expected a file, found a directory")
    target: Path = options.output or source.with_name(source.name + SUFFIX)
    with progress_bar(f"pack {source.name}", source.stat().st_size) as progress:
        report = pack_file(
            source,
            target,
            engine=open_engine(options.engine),
            level=Level(options.level),
            threads=options.threads,
            bases=options.base,
            force=options.force,
            progress=progress,
        )
    print_report(report, str(source), str(target), as_json=options.json)
    return 0
