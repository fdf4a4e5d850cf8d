"""RESULTS.md: each benchmark rewrites its own section, with date, CPU and commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "RESULTS.md"
# What a commit must hold for its results to be its own.
_MEASURED = ("codec", "native", "proxy", "src")
_HEAD = (
    "# Measured\n\nWritten by the scripts in this folder; see [README.md](README.md). Compare within one run only.\n"
)


def machine() -> str:
    """CPU, cores, Python, date, commit and load of this run: over one a core, others were at work too."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = f"{names[0]}, {len(names)} cores" if names else cpu
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    changed = " and changes" if _git("status", "--porcelain", "--untracked-files=no", "--", *_MEASURED) else ""
    today = datetime.now(UTC).date().isoformat()
    return (
        f"{today}, {cpu}, Python {platform.python_version()}, commit {commit}{changed}, load {os.getloadavg()[1]:.1f}."
    )


def _git(*arguments: str) -> str:
    """What git says of this checkout; nothing where there is none."""
    root = RESULTS.parent.parent
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, cwd=root).stdout.strip()


def markdown_table(columns: list[str], rows: list[list[str]]) -> str:
    """A table, numbers to the right."""
    align = ["---"] + ["---:"] * (len(columns) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [columns, align, *rows])


def write_section(title: str, text: str) -> None:
    """Replace or append one section."""
    current = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else _HEAD
    before, _, rest = current.partition(f"\n## {title}\n")
    after = rest.partition("\n## ")
    tail = f"\n## {after[2]}" if after[1] else ""
    RESULTS.write_text(f"{before.rstrip()}\n\n## {title}\n\n{text.strip()}\n{tail}", encoding="utf-8")


def drop_section(title: str) -> None:
    """Remove a section, where it is there."""
    current = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else _HEAD
    before, found, rest = current.partition(f"\n## {title}\n")
    if found:
        _, more, tail = rest.partition("\n## ")
        RESULTS.write_text(f"{before.rstrip()}\n{more}{tail}", encoding="utf-8")
