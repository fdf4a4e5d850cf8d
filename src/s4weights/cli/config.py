"""s4weights config."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from .extras import proxy_extra
from .settings import add_flags, given_flags


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "config",
        help="every setting of `serve`: its value, where it came from and what it means",
        description="Show every setting. Flags come before S4W_* in the environment, these before the file, then defaults.",
        epilog="examples:\n  s4weights config\n  S4W_MEMORY_BYTES=1GiB s4weights config --upstream ./buckets --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_flags(parser)
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the settings; secrets masked."""
    with proxy_extra():
        from s4weights.proxy.config import load_settings
        from s4weights.proxy.settings_text import meanings, shown
    flags = given_flags(options)
    flags.setdefault("upstream", None)
    rows, says = load_settings(flags, require_upstream=False).rows(), meanings()
    if options.json:
        for name, value, source in rows:
            about = {"name": name, "value": value, "source": source, "meaning": says[name]}
            sys.stdout.write(json.dumps(about) + "\n")
        return 0
    cells = [(name, shown(value) or "-", source, says[name]) for name, value, source in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    for row in cells:
        columns = [f"{text:<{width}}" for text, width in zip(row, widths, strict=False)]
        sys.stdout.write("  ".join([*columns, row[3]]) + "\n")
    return 0
