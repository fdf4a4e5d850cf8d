"""Run every benchmark that RESULTS.md holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    scripts = ("entropy_bench", "codec_bench", "hash_bench", "memory_bench", "straight_bench", "load_bench")
    for script in (f"{name}.py" for name in scripts):
        subprocess.run([sys.executable, str(Path(__file__).parent / script)], check=True)
