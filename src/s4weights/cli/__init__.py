"""The command line: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from s4weights.codec.allocator import keep_freed_memory
from s4weights.codec.errors import ConfigError, EngineUnavailable, S4WeightsError
from s4weights.proxy.errors import NotEntitled
from s4weights.version import __version__

_COMMANDS: Final = (
    "serve",
    "pack",
    "unpack",
    "inspect",
    "estimate",
    "bench",
    "verify",
    "explain",
    "gc",
    "repack",
    "selftest",
    "watch",
    "config",
)
# EX_NOPERM and EX_CONFIG of sysexits.h tell a supervisor that to start again changes nothing.
_EXIT_NOT_ENTITLED: Final = 77
_EXIT_CONFIG: Final = 78
# As of a program that SIGPIPE ends.
_EXIT_READER_GONE: Final = 141
_EPILOG: Final = """\
exit codes: 0 done; 1 failed, with the reason on stderr; 2 wrong usage; 77 `serve` may not run here;
78 `serve` cannot use a setting; 141 nobody reads the results any more
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="s4weights",
        description="PyTorch checkpoints in S3, in far fewer bytes, and every byte back.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"s4weights {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in _COMMANDS:
        import_module(f"{__name__}.{name}").add_parser(commands)
    options = parser.parse_args(arguments)
    keep_freed_memory()
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError as error:
        if not _reader_is_gone():
            sys.stderr.write(f"s4weights {options.command}: {error}\n")
            return 1
        return _EXIT_READER_GONE
    except (S4WeightsError, OSError) as error:
        sys.stderr.write(f"s4weights {options.command}: {error}\n")
        return _exit_code(options.command, error)
    except KeyboardInterrupt:
        return 130


def _reader_is_gone() -> bool:
    """Whether nobody reads the results any more, as behind `| head`; nothing is written to it from then on."""
    try:
        out = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file: replaced by who calls this as a function
        return False
    asked = select.poll()
    asked.register(out, select.POLLOUT)
    if not any(events & select.POLLERR for _, events in asked.poll(0)):
        return False
    # The interpreter flushes once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), out)
    return True


def _exit_code(command: str, error: Exception) -> int:
    if command != "serve":
        return 1
    if isinstance(error, NotEntitled):
        return _EXIT_NOT_ENTITLED
    return _EXIT_CONFIG if isinstance(error, (ConfigError, EngineUnavailable)) else 1
