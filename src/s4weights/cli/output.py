"""What the commands print: sizes, progress, reports."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from s4weights.files import Progress as Advance
from s4weights.files import Report

_LINE_EVERY_S: Final = 10.0


def natural(text: str) -> int:
    """An argument that is a whole number from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 on, found {text!r}")
    return int(text)


def printable(text: str) -> str:
    """Text from a file, safe on a terminal."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def counted(number: int, one: str, many: str) -> str:
    """1 body, 2 bodies."""
    return f"{number} {one if number == 1 else many}"


def size(number: float) -> str:
    """Bytes for people, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


@contextmanager
def progress_bar(text: str, total: int) -> Iterator[Advance]:
    """On stderr: a bar on a terminal, else a line now and then."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(text, total)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done: bar.advance(task, done)


def _lines(text: str, total: int) -> Advance:
    done, told_s = 0, time.monotonic()

    def advance(more: int) -> None:
        nonlocal done, told_s
        done += more
        now_s = time.monotonic()
        if now_s - told_s >= _LINE_EVERY_S:
            told_s = now_s
            sys.stderr.write(f"{text}: {size(done)} of {size(total)}\n")

    return advance


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
