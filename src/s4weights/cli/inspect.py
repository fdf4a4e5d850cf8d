"""s4weights inspect."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from s4weights.anatomy import Anatomy, Row, inspect_file, untyped
from s4weights.engine import open_engine

from .output import natural, printable, progress_bar, size
from .settings import add_engine

_TERMINAL_ROWS: Final = 40


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "inspect",
        help="what a container or a checkpoint is made of",
        description="Show every tensor of FILE: type, bytes, stored bytes, ratio, how it is predicted (in brackets from which "
        "base; 0: the file itself), and how its planes are stored, the highest first. A file that is no container is encoded, "
        "and shown as it would be stored.",
        epilog="examples:\n  s4weights inspect model.safetensors.s4w\n  s4weights inspect model.safetensors --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    add_engine(parser)
    parser.add_argument(
        "--limit", type=natural, metavar="N", help=f"rows at most ({_TERMINAL_ROWS} on a terminal, else all)"
    )
    parser.add_argument("--json", action="store_true", help="one object a line: the tensors, then the whole")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Inspect one file."""
    source: Path = options.file
    with progress_bar(f"inspect {source.name}", source.stat().st_size) as progress:
        anatomy = inspect_file(source, engine=open_engine(options.engine, one_by_one=True), progress=progress)
    if options.json:
        _print_json(anatomy)
    else:
        limit = options.limit
        if limit is None and sys.stdout.isatty():
            limit = _TERMINAL_ROWS
        _print_table(source, anatomy, limit)
    return 0


def _print_json(anatomy: Anatomy) -> None:
    for row in anatomy.rows:
        fields = {
            "name": row.name,
            "type": row.element,
            "shape": row.shape,
            "logical_bytes": row.logical_bytes,
            "stored_bytes": round(row.stored_bytes),
            "ratio": round(row.ratio, 4),
            "modes": sorted(row.modes),
            "predictors": sorted(row.predictors),
            "bases": sorted(row.bases),
        }
        sys.stdout.write(json.dumps(fields) + "\n")
    whole = {
        "kind": anatomy.kind,
        "is_container": anatomy.is_container,
        "logical_bytes": anatomy.logical_bytes,
        "stored_bytes": anatomy.stored_bytes,
        "seconds": round(anatomy.seconds, 3),
        "engine": anatomy.engine,
        "verified": not anatomy.is_container,
        "bases": [base.member() for base in anatomy.bases],
        "typed_bytes": sum(row.logical_bytes for row in anatomy.rows if not untyped(row)),
    }
    sys.stdout.write(json.dumps(whole) + "\n")


def _print_table(path: Path, anatomy: Anatomy, limit: int | None) -> None:
    # Bytes between tensors are one row: there may be thousands of them.
    tensors = [row for row in anatomy.rows if not untyped(row)]
    shown = tensors if limit is None else tensors[:limit]
    table = Table(box=None, pad_edge=False)
    for name, justify in (("tensor", "left"), ("type", "left"), ("shape", "left"), ("bytes", "right")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for name in ("stored", "ratio"):
        table.add_column(name, justify="right")
    table.add_column("modes")
    for row in [*shown, *_sums(anatomy.rows)]:
        table.add_row(*_cells(row))
    # Names are a file's: [brackets] and :colons: in them are no markup.
    console = Console(width=None if sys.stdout.isatty() else 200, markup=False, emoji=False, highlight=False)
    console.print(table)
    if len(shown) < len(tensors):
        console.print(f"... and {len(tensors) - len(shown)} more tensors (--limit)")
    for number, base in enumerate(anatomy.bases, 1):
        behind = f", {base.depth} more behind it" if base.depth else ""
        console.print(
            f"base ({number}): {printable(base.key)}, {size(base.size)}, XXH3-128 {base.digest.hex()}{behind}",
            soft_wrap=True,
        )
    ratio = anatomy.logical_bytes / anatomy.stored_bytes if anatomy.stored_bytes else 1.0
    verb = "stored" if anatomy.is_container else "would be stored"
    how = f"{anatomy.engine}, verified" if anatomy.engine else "not decoded"
    console.print(
        f"{path}: {printable(anatomy.kind)}, {size(anatomy.logical_bytes)} {verb} in {size(anatomy.stored_bytes)}, "
        f"ratio {ratio:.3f}, {anatomy.seconds:.2f} s, {how}",
        soft_wrap=True,
    )


def _sums(rows: list[Row]) -> list[Row]:
    """One row a type."""
    sums: dict[str, Row] = {}
    for row in rows:
        total = sums.setdefault(row.element, Row(f"all {row.element}", row.element, None, 0))
        total.logical_bytes += row.logical_bytes
        total.stored_bytes += row.stored_bytes
        total.modes |= row.modes
    return list(sums.values())


def _cells(row: Row) -> list[str]:
    shape = "x".join(map(str, row.shape)) if row.shape is not None else ""
    modes = " ".join(sorted(row.modes)[:4])
    return [
        printable(row.name or ""),
        printable(row.element),
        printable(shape),
        str(row.logical_bytes),
        f"{row.stored_bytes:.0f}",
        f"{row.ratio:.3f}",
        modes,
    ]
