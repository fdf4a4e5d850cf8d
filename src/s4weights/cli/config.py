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
        help="every setting of `serve`, its value and where it came from",
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
    flags = given_flags(options)
    flags.setdefault("upstream", None)
    rows = load_settings(flags, require_upstream=False).rows()
    for name, value, source in rows:
        if options.json:
            sys.stdout.write(json.dumps({"name": name, "value": value, "source": source}) + "\n")
        else:
            shown = ",".join(value) if isinstance(value, tuple) else value
            sys.stdout.write(f"{name:<18} {shown!s:<32} {source}\n")
    return 0
