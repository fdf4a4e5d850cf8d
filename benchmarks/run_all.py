"""Run every benchmark that RESULTS.md holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    for script in (
        "entropy_bench.py",
        "codec_bench.py",
        "hash_bench.py",
        "memory_bench.py",
        "straight_bench.py",
        "listing_bench.py",
    ):
        subprocess.run([sys.executable, str(Path(__file__).parent / script)], check=True)
