"""Run the benchmarks that RESULTS.md holds: all of them, or those that are named."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

SCRIPTS = (
    "entropy_bench.py",
    "codec_bench.py",
    "delta_bench.py",
    "hash_bench.py",
    "header_bench.py",
    "memory_bench.py",
    "straight_bench.py",
    "shaped_bench.py",
    "load_bench.py",
    "listing_bench.py",
    "profile_bench.py",
)
# What the endpoint is measured by, on a machine where nothing else runs.
ENDPOINT = SCRIPTS[SCRIPTS.index("memory_bench.py") :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", action="store_true", help=f"only {', '.join(ENDPOINT)}")
    options = parser.parse_args()
    for script in ENDPOINT if options.endpoint else SCRIPTS:
        subprocess.run([sys.executable, str(Path(__file__).parent / script)], check=True)


if __name__ == "__main__":
    main()
