"""s4weights selftest."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from typing import Any

from s4weights.selftest.run import Outcome
from s4weights.selftest.run import run as run_selftest
from s4weights.version import __version__

from .output import printable, size


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "selftest",
        help="whether every engine of this machine gives back every byte",
        description="Encode and decode hard frames of every type, and the format's golden vectors, on every engine that "
        "runs here, and compare all of them with one another. Ends with 0 only where all of it was bit-exact.",
        epilog="examples:\n  s4weights selftest\n  s4weights selftest --require-gpu --json\n  s4weights selftest --thorough",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--engine",
        default="auto",
        choices=("auto", "native", "reference", "gpu"),
        help="auto: all that run here; else this one, beside those that run everywhere",
    )
    parser.add_argument("--require-gpu", action="store_true", help="fail where the GPU's engine does not run")
    parser.add_argument(
        "--thorough", action="store_true", help="every pattern with every size and level (many minutes)"
    )
    parser.add_argument("--json", action="store_true", help="one object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Test, report."""
    outcome = run_selftest(
        options.engine,
        require_gpu=options.require_gpu,
        thorough=options.thorough,
        tell=lambda stage: None if options.json else _tell(stage),
    )
    if options.json:
        sys.stdout.write(json.dumps(_fields(outcome)) + "\n")
    else:
        _print(outcome)
    return 0 if outcome.ok else 1


def _tell(stage: str) -> None:
    sys.stderr.write(f"{stage}\n")
    sys.stderr.flush()


def _fields(outcome: Outcome) -> dict[str, Any]:
    return {
        "ok": outcome.ok,
        "version": __version__,
        "machine": platform.machine(),
        "engines": {name: {"runs": not why, "why": why} for name, why in outcome.engines.items()},
        "cases": outcome.cases,
        "bytes": outcome.encoded_bytes,
        "golden": outcome.golden,
        "device_frames": outcome.device_frames,
        "failed": outcome.failed,
        "failures": outcome.failures,
        "seconds": round(outcome.seconds, 1),
    }


def _print(outcome: Outcome) -> None:
    for name, why in outcome.engines.items():
        sys.stdout.write(f"{name:<10} {printable(why) if why else 'runs'}\n")
    for failure in outcome.failures:
        sys.stdout.write(f"FAILED     {printable(failure)}\n")
    tried = f"{outcome.cases} frames ({size(outcome.encoded_bytes)}) and {outcome.golden} golden vectors"
    verdict = "every byte came back" if outcome.ok else f"{outcome.failed} failures"
    sys.stdout.write(f"{tried} in {outcome.seconds:.1f} s: {verdict}\n")
