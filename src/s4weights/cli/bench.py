"""s4weights bench."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from s4weights.engine import open_engine
from s4weights.measure.bench import Benched, bench, pick
from s4weights.measure.candidate import COPY, DECODE, ENCODE, VERIFIED
from s4weights.measure.ours import LEVELS, OURS
from s4weights.measure.peers import PEERS, missing_peers
from s4weights.measure.plot import draw, require_matplotlib
from s4weights.measure.rounds import Result
from s4weights.measure.sources import open_source
from s4weights.measure.synthetic import SyntheticSource

from .output import natural, printable, progress_bar, size
from .settings import add_engine

_MAX_BYTES: Final = 256 << 20
_RUNS: Final = 5


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bench",
        help="ratio and speed on your file, beside other compressors",
        description="Measure the codec on the tensors of FILE, and every other compressor that is installed: each round "
        "measures everyone once, with one thread; medians of the rounds. All output is decoded and compared. Without FILE a "
        "synthetic checkpoint is made: real ones differ.",
        epilog="examples:\n  s4weights bench checkpoint.pt\n  s4weights bench s3://bucket/step-100/model.safetensors --runs 9 "
        "--plot bench.png\n\nto compare with: pip install zipnn openzl pcodec blosc2",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", metavar="FILE|s3://BUCKET/KEY")
    parser.add_argument("--runs", type=_positive, default=_RUNS, metavar="N", help=f"rounds ({_RUNS})")
    parser.add_argument(
        "--max-bytes",
        type=natural,
        default=_MAX_BYTES,
        metavar="N",
        help=f"of a larger file, pieces spread over it, so many bytes in all ({_MAX_BYTES})",
    )
    parser.add_argument(
        "--level",
        nargs="+",
        default=LEVELS,
        choices=LEVELS,
        metavar="NAME",
        help=f"of {', '.join(LEVELS)}; all by default",
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        default=PEERS,
        choices=PEERS,
        metavar="NAME",
        help=f"of {', '.join(PEERS)}; all by default",
    )
    add_engine(parser)
    parser.add_argument("--plot", type=Path, metavar="OUT.png", help="ratio against speed as a picture (matplotlib)")
    parser.add_argument(
        "--json", action="store_true", help="one object a line: a component and candidate, then the machine"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure one file."""
    if options.plot is not None:
        require_matplotlib()
    source = SyntheticSource() if options.file is None else open_source(options.file)
    engine = open_engine(options.engine, one_by_one=True)
    chosen = pick(source, options.max_bytes)
    with progress_bar(f"bench {printable(source.name)}", chosen.bytes * options.runs) as progress:
        benched = bench(chosen, engine, options.runs, progress, levels=options.level, peers=options.peers)
    if options.json:
        _print_json(benched, options)
    else:
        _print_table(benched, options)
    if options.plot is not None:
        draw(
            benched.total or benched.results, f"{printable(source.name)}: {size(chosen.bytes)} of tensors", options.plot
        )
        sys.stderr.write(f"{options.plot}: written\n")
    failed = [one for one in benched.results if one.failure is not None and one.candidate.startswith(OURS)]
    return 1 if failed else 0


def _positive(text: str) -> int:
    """An argument that is a whole number from 1 on."""
    number = natural(text)
    if not number:
        raise argparse.ArgumentTypeError("expected a whole number from 1 on, found 0")
    return number


def _print_json(benched: Benched, options: argparse.Namespace) -> None:
    for result in [*benched.results, *benched.total]:
        fields = {
            "component": result.component,
            "type": result.element or None,
            "candidate": result.candidate,
            "logical_bytes": result.logical_bytes,
            "stored_bytes": result.stored_bytes,
            "ratio": round(result.ratio, 4),
            "encode_gb_s": _rounded(result.speed(ENCODE)),
            "encode_verified_gb_s": _rounded(result.speed(VERIFIED)),
            "decode_gb_s": _rounded(result.speed(DECODE)),
            "copy_gb_s": _rounded(result.speed(COPY)),
            "identical": result.identical,
            "failure": result.failure,
        }
        sys.stdout.write(json.dumps(fields) + "\n")
    machine = {
        "source": benched.chosen.name,
        "synthetic": benched.chosen.is_synthetic,
        "source_bytes": benched.chosen.source_bytes,
        "measured_bytes": benched.chosen.bytes,
        "left_out": benched.chosen.left_out,
        "runs": options.runs,
        "threads": 1,
        "cpu": _cpu(),
        "python": platform.python_version(),
        "not_installed": missing_peers(options.peers),
    }
    sys.stdout.write(json.dumps(machine) + "\n")


def _print_table(benched: Benched, options: argparse.Namespace) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("component", "type", "candidate"):
        table.add_column(name, overflow="fold")
    for name in ("ratio", "encode GB/s", "verified", "decode GB/s"):
        table.add_column(name, justify="right")
    last = ("", "")
    for result in [*benched.results, *benched.total]:
        now = (result.component, result.element)
        if last not in (now, ("", "")):
            table.add_section()
            table.add_row()
        table.add_row(*(now if now != last else ("", "")), *_cells(result))
        last = now
    console = Console(width=None if sys.stdout.isatty() else 200, markup=False, emoji=False, highlight=False)
    console.print(table)
    for line in _notes(benched, options):
        console.print(line, soft_wrap=True)


def _cells(result: Result) -> list[str]:
    if result.failure is not None:
        return [result.candidate, "failed"]
    if COPY in result.seconds:
        return [result.candidate, "", _shown(result.speed(COPY)), "", _shown(result.speed(COPY))]
    speeds = [_shown(result.speed(step)) for step in (ENCODE, VERIFIED, DECODE)]
    return [result.candidate, f"{result.ratio:.3f}", *speeds]


def _notes(benched: Benched, options: argparse.Namespace) -> list[str]:
    chosen = benched.chosen
    what = "a synthetic checkpoint (real ones differ)" if chosen.is_synthetic else printable(chosen.name)
    notes = [
        f"\n{what}: {size(chosen.bytes)} of tensors measured, of {size(chosen.source_bytes)}; rounds: {options.runs}, medians, "
        f"one thread, GB of tensor bytes a second; {_cpu()}.",
        "memcpy: the same bytes copied, target warm. verified: encoded, decoded again and compared, as everything is stored.",
    ]
    notes += [
        f"{one.candidate} failed on {one.component} {one.element}: {printable(one.failure)}"
        for one in benched.results
        if one.failure is not None
    ]
    if chosen.left_out:
        notes.append(f"not measured, no room in --max-bytes: {', '.join(chosen.left_out)}")
    if missing_peers(options.peers):
        notes.append(f"not installed, so not compared: {', '.join(missing_peers(options.peers))}")
    return notes


def _rounded(speed: float | None) -> float | None:
    return None if speed is None else round(speed, 4)


def _shown(speed: float | None) -> str:
    return "" if speed is None else f"{speed:.2f}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
