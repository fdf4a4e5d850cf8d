"""Run every benchmark that RESULTS.md holds."""

from __future__ import annotations

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
)

if __name__ == "__main__":
    for script in SCRIPTS:
        subprocess.run([sys.executable, str(Path(__file__).parent / script)], check=True)
