"""Peak host memory of save and load beside the state itself, each in a process of its own.

python benchmarks/api_memory_bench.py [--gib 2] [--folder DIR]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

_TENSORS = 16


def main() -> None:
    """Print one line for save and one for load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0, help="size of the state")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--work", choices=("save", "load"), help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        _measure(options.work, options.file, options.gib)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for work in ("save", "load"):
            arguments = ["--gib", str(options.gib), "--work", work, "--file", f"{folder}/state.pt"]
            subprocess.run([sys.executable, __file__, *arguments], check=True)


def _measure(work: str, file: str, gib: float) -> None:
    import torch

    import s4weights

    # What is imported and begun once is no part of the state nor of its save.
    s4weights.save({"a": torch.randn(1000)}, file + ".small")
    s4weights.load(file + ".small")
    before = _peak_bytes()
    state_bytes = int(gib * (1 << 30))
    if work == "save":
        state = {str(number): torch.randn(state_bytes // 4 // _TENSORS) for number in range(_TENSORS)}
        s4weights.save(state, file)
    else:
        s4weights.load(file)
    beside = _peak_bytes() - before - state_bytes
    print(f"{work}: state {state_bytes >> 20} MiB, beside it at most {beside / (1 << 20):.0f} MiB")


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
