"""Feed mutants to the codec for some seconds: `python -m tests.fuzz {bodies,containers,engines} SECONDS [NUMBER]`.

Guided by coverage where atheris is installed. The input of a failure lies in ./crash-input, or where atheris says.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from .mutate import Mutator

TARGETS = ("bodies", "containers", "engines")


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3) or arguments[0] not in TARGETS:
        print(__doc__, file=sys.stderr)
        return 2
    name, seconds = arguments[0], float(arguments[1])
    number = int(arguments[2]) if len(arguments) == 3 else 0
    guided = importlib.util.find_spec("atheris") is not None
    atheris: Any = importlib.import_module("atheris") if guided else None
    with atheris.instrument_imports(include=["s4weights.codec"]) if guided else contextlib.nullcontext():
        target = importlib.import_module(f"{__package__}.{name}")
    if guided:
        return by_coverage(atheris, target, seconds, number)
    seeds = target.seeds()
    for seed in seeds:
        run(target, seed)
    mutator = Mutator(seeds, number)
    end, done = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        run(target, mutator.next())
        done += 1
    print(f"{name}: {len(seeds)} seeds, {done} mutants, no fault")
    return 0


def run(target: ModuleType, data: bytes) -> None:
    try:
        target.one(data)
    except BaseException:
        Path("crash-input").write_bytes(data)
        raise


def by_coverage(atheris: Any, target: ModuleType, seconds: float, number: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        for i, seed in enumerate(target.seeds()):
            (Path(folder) / str(i)).write_bytes(seed)
        options = [f"-max_total_time={round(seconds)}", f"-seed={number + 1}", "-timeout=20", "-rss_limit_mb=3000"]
        atheris.Setup([sys.argv[0], *options, folder], target.one)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
