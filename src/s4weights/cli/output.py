"""What the commands print: sizes, progress, reports."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from s4weights.files import Progress as Advance
from s4weights.files import Report


def size(number: float) -> str:
    """Bytes for people, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


@contextmanager
def progress_bar(text: str, total: int) -> Iterator[Advance]:
    """A bar on stderr, on a terminal only."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (
        "{task.description}",
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done: bar.advance(task, done)


def print_report(report: Report, source: str, target: str, *, as_json: bool) -> None:
    """One line, or one object."""
    if as_json:
        fields = {"source": source, "target": target, **asdict(report), "ratio": round(report.ratio, 6)}
        sys.stdout.write(json.dumps(fields) + "\n")
        return
    speed = report.logical_bytes / report.seconds if report.seconds else 0.0
    sys.stdout.write(
        f"{target}: {size(report.logical_bytes)} logical, {size(report.stored_bytes)} stored, ratio {report.ratio:.3f}, "
        f"{report.seconds:.2f} s ({size(speed)}/s), {report.engine}, verified\n"
    )
    if report.fallbacks:
        sys.stderr.write(f"{report.fallbacks} frames failed their round trip and are stored raw: please report this\n")
