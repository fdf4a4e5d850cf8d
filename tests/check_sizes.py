"""Fail where a module has grown past 400 lines: it has more than one duty by then."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("codec", "proxy", "src/s4weights", "native", "tests", "benchmarks", "examples")
MAX_LINES = 400


def too_long() -> list[str]:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".pyi", ".cpp", ".hpp", ".h"} and path.is_file():
                lines = path.read_text(encoding="utf-8").count("\n")
                if lines > MAX_LINES:
                    found.append(f"{path.relative_to(ROOT)}: {lines} lines, at most {MAX_LINES}")
    return found


if __name__ == "__main__":
    found = too_long()
    sys.stderr.writelines(f"{line}\n" for line in found)
    sys.exit(bool(found))
