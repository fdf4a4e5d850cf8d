"""Feed mutants to the codec for some seconds: `python -m tests.fuzz {bodies,containers,engines} SECONDS [NUMBER]`.

Guided by coverage where atheris is installed. The input of a failure lies in ./crash-input, or where atheris says.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import tempfile
import time
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from .mutate import Mutator

TARGETS = ("bodies", "containers", "engines")


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3) or arguments[0] not in TARGETS:
        print(__doc__, file=sys.stderr)
        return 2
    name, seconds = arguments[0], float(arguments[1])
    number = int(arguments[2]) if len(arguments) == 3 else 0
    target = importlib.import_module(f"{__package__}.{name}")
    if importlib.util.find_spec("atheris") is not None:
        return by_coverage(importlib.import_module("atheris"), target, seconds, number)
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
    # Its hook on imports does not see the modules of an editable install.
    for function in functions_of_codec():
        atheris.instrument_func(function)
    with tempfile.TemporaryDirectory() as folder:
        for i, seed in enumerate(target.seeds()):
            (Path(folder) / str(i)).write_bytes(seed)
        options = [f"-max_total_time={round(seconds)}", f"-seed={number + 1}", "-timeout=20", "-rss_limit_mb=3000"]
        atheris.Setup([sys.argv[0], *options, folder], target.one)
        atheris.Fuzz()
    return 0


def functions_of_codec() -> list[FunctionType]:
    found: list[FunctionType] = []
    for name, module in list(sys.modules.items()):
        if not name.startswith("s4weights.codec."):
            continue
        holders = [module, *(one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == name)]
        for holder in holders:
            members = (getattr(one, "__func__", one) for one in vars(holder).values())
            found += [one for one in members if isinstance(one, FunctionType) and one.__module__ == name]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
