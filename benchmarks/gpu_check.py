"""The steps of gpu_check.sh that are Python: python -m benchmarks.gpu_check STEP."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.gpu_figures import Body, bodies, measure, section
from benchmarks.results import machine

from s4weights.codec.decode import decode_frame
from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import NativeEngine, ReferenceEngine, choose_engine
from s4weights.codec.errors import EngineUnavailable
from s4weights.codec.types import ElementType, Frame, Level, Mode

NO_GPU = 3


def check_device() -> int:
    """Name the device, or what is missing."""
    import torch

    engine: Any = choose_engine("gpu")
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else engine.device.name
    sys.stdout.write(json.dumps({"device": name, "torch": torch.__version__, "machine": machine()}) + "\n")
    return 0


def check_small() -> int:
    """A batch of each type there and back, small enough for a sanitizer; the device must have done all of it."""
    engine: Any = choose_engine("gpu")
    engine.least_bytes = 1
    for body in bodies(200_000):
        _there_and_back(engine, body, Level.BALANCED)
    return _end(engine)


def check_gdeflate() -> int:
    """What nvCOMP writes on this GPU, read by the processor's own decoders; and what nvCOMP reads of it."""
    from s4weights.codec.gpu.nvcomp import PageCoder

    engine: Any = choose_engine("gpu", entropy="gdeflate")
    rng = np.random.default_rng(3)
    period = np.resize(rng.integers(0, 1 << 16, 4_001).astype("<u2"), 400_000).tobytes()
    frame = Frame(0, ElementType.U16, period)
    coded = encode_frame(frame, engine)
    if Mode.GDEFLATE not in coded.modes or coded.fell_back:
        sys.stdout.write(f"expected a plane in GDeflate that comes back, found {coded.modes}\n")
        return 1
    for reader in (NativeEngine(), ReferenceEngine(), engine):
        if decode_frame(coded.header + bytes(coded.payload), reader) != period:
            sys.stdout.write(f"{reader.name} reads other bytes\n")
            return 1
    import torch

    pages = [torch.frombuffer(bytearray(period[:65_536]), dtype=torch.uint8).to(engine.device.place)]
    coder = PageCoder("GDeflate")
    if not torch.equal(coder.decode(coder.encode(pages), [65_536])[0], pages[0]):
        sys.stdout.write("nvCOMP reads other bytes than it wrote\n")
        return 1
    return _end(engine)


def check_figures(target: Path) -> int:
    """Measure, and write what was found."""
    target.write_text(json.dumps(measure(choose_engine("gpu")), indent=1) + "\n", encoding="utf-8")
    return 0


def report(out: Path) -> int:
    """check.json and section.md out of what the steps left. The exit code of the whole."""
    steps = {name: int(code) for name, code in (line.split() for line in (out / "steps").read_text().splitlines())}
    rows = {}
    for name, code in steps.items():
        lines = (out / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
        rows[name] = {"passed": code == 0, "code": code, "last": lines[-1] if lines else ""}
    (out / "check.json").write_text(
        json.dumps({"machine": machine(), "steps": rows}, indent=1) + "\n", encoding="utf-8"
    )
    if steps.get("device") == NO_GPU:
        sys.stdout.write(f"no GPU: {rows['device']['last']}\n")
        return NO_GPU
    if steps.get("figures") == 0:
        figures = json.loads((out / "figures.json").read_text(encoding="utf-8"))
        (out / "section.md").write_text(section(figures), encoding="utf-8")
    failed = [name for name, code in steps.items() if code]
    sys.stdout.write(f"failed: {', '.join(failed)}\n" if failed else "all steps passed\n")
    return 1 if failed else 0


def _there_and_back(engine: Any, body: Body, level: Level) -> None:
    frame = Frame(0, body.element, body.data, body.grid)
    coded = encode_frame(frame, engine, level)
    if decode_frame(coded.header + bytes(coded.payload), engine) != body.data:
        raise SystemExit(f"{body.name}: other bytes came back")


def _end(engine: Any) -> int:
    counts = engine.counts
    sys.stdout.write(f"{counts.frames} frames in {counts.batches} batches, {counts.faults} faults; {counts.off}\n")
    return 1 if counts.faults or counts.off or not counts.frames else 0


def main(arguments: list[str] | None = None) -> int:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("device", "small", "gdeflate", "figures", "report"))
    parser.add_argument("place", type=Path, nargs="?")
    options = parser.parse_args(arguments)
    try:
        if options.step in ("figures", "report"):
            return check_figures(options.place) if options.step == "figures" else report(options.place)
        return {"device": check_device, "small": check_small, "gdeflate": check_gdeflate}[options.step]()
    except EngineUnavailable as error:
        sys.stdout.write(f"{error}\n")
        return NO_GPU


if __name__ == "__main__":
    sys.exit(main())
