"""How fast the GPU's engine is: kernels beside a copy of the same run, frames from the host beside PCIe, and peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import zstandard
from benchmarks.results import machine, markdown_table

from s4weights.codec.decode import decode_frame
from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import NativeEngine
from s4weights.codec.errors import EngineUnavailable
from s4weights.codec.gpu.interface import DeviceFrame
from s4weights.codec.gpu.nvcomp import PAGE_BYTES, PageCoder
from s4weights.codec.types import NO_GRID, ElementType, Frame, Grid, Level

_GB = 1e9
_COLUMNS = 1024
# What others publish, as they publish it; not measured here. Source: github.com/facebookresearch/dietgpu, README.md.
PUBLISHED = {"DietGPU, rANS on bytes, A100": "250 to 410 GB/s", "DietGPU, float codec, A100": "250 to 600 GB/s"}


@dataclass(frozen=True, slots=True)
class Body:
    """Elements of one kind."""

    name: str
    element: ElementType
    data: bytes
    grid: Grid = NO_GRID


def bodies(size: int) -> Iterator[Body]:
    """Weights and moments as training leaves them, by their distributions; about size bytes each."""
    rng = np.random.default_rng(11)
    weights = rng.normal(0, 0.02, size // 4).astype("<f4")
    yield Body("fp32 weights", ElementType.F32, weights.tobytes())
    halves = rng.normal(0, 0.02, size // 2).astype("<f4").view("<u4") >> 16
    yield Body("bf16 weights", ElementType.BF16, halves.astype("<u2").tobytes())
    rows = max(8, size // 4 // _COLUMNS)
    scales = np.exp(rng.normal(0, 2, (rows, 1)) + rng.normal(0, 2, (1, _COLUMNS)))
    moments = (scales * rng.gamma(4, 0.25, (rows, _COLUMNS)) * 1e-4).astype("<f4")
    yield Body("fp32 second moments", ElementType.F32, moments.tobytes(), Grid(_COLUMNS, 0))


def measure(engine: Any, size: int = 256 << 20, rounds: int = 5) -> dict[str, Any]:
    """engine: a GpuEngine. size: bytes of each body. Speeds are the best of the rounds, in GB/s of logical bytes."""
    on_gpu = torch.cuda.is_available()
    found: dict[str, Any] = {
        "machine": machine(),
        "device": torch.cuda.get_device_name() if on_gpu else engine.device.name,
        "torch": torch.__version__,
        "copies": _copies(engine.device, size, rounds),
        "published": PUBLISHED,
        "bodies": [],
    }
    for body in bodies(size):
        frames = _cut(body)
        row: dict[str, Any] = {"name": body.name, **_from_host(engine, frames, rounds)}
        row["kernels"] = _kernels(engine.device, frames) if on_gpu else {}
        row["device"] = _on_device(engine.device, frames, rounds)
        row["native"] = _from_host(NativeEngine(), frames[:64], 1)
        row["zstd 3"] = _zstd(frames[:32])
        row["nvcomp ans"] = _nvcomp_ans(engine.device, body, rounds)
        found["bodies"].append(row)
    counts = engine.counts
    found["faults"], found["off"] = counts.faults, counts.off
    return found


def section(figures: dict[str, Any]) -> str:
    """For RESULTS.md."""
    copies = figures["copies"]
    lines = [
        f"{figures['machine']} {figures['device']}, torch {figures['torch']}.",
        "GB/s of logical bytes, the best of several rounds.",
        f"Copies of the same run: on the device {copies['on device']:.0f}, up {copies['up']:.1f}, down {copies['down']:.1f}.",
        "",
        markdown_table(
            [
                "body",
                "stored",
                "encode, host to host",
                "decode",
                "encode on the device",
                "decode",
                "native encode",
                "decode",
            ],
            [
                [row["name"], f"{row['stored']:.3f}"]
                + [
                    f"{row[one][what]:.2f}" if one else f"{row[what]:.2f}"
                    for one in ("", "device", "native")
                    for what in ("encode", "decode")
                ]
                for row in figures["bodies"]
            ],
        ),
        "",
        "Beside it, of the same bodies: "
        + "; ".join(
            f"{row['name']}: zstd 3 {row['zstd 3']['stored']:.3f} at {row['zstd 3']['encode']:.2f}, nvCOMP ANS "
            + _ans(row["nvcomp ans"])
            for row in figures["bodies"]
        )
        + ".",
        "",
        "Published by others, not measured here: "
        + "; ".join(f"{k}: {v}" for k, v in figures["published"].items())
        + ".",
    ]
    for row in figures["bodies"]:
        if row["kernels"]:
            lines += ["", f"Kernels on {row['name']}, with their share of the speed of a copy on the device:", ""]
            rows = [
                [name, f"{speed:.0f}", f"{speed / copies['on device']:.2f}"] for name, speed in row["kernels"].items()
            ]
            lines.append(markdown_table(["kernel", "GB/s", "of a copy"], rows))
    return "\n".join(lines) + "\n"


def _ans(found: dict[str, Any]) -> str:
    return found["missing"] if "missing" in found else f"{found['stored']:.3f} at {found['encode']:.0f}"


def _cut(body: Body) -> list[Frame]:
    step = 1 << 20
    return [
        Frame(at, body.element, body.data[at : at + step], body.grid)
        for at in range(0, len(body.data) - step + 1, step)
    ] or [Frame(0, body.element, body.data, body.grid)]


def _best(work: Callable[[], object], size: int, rounds: int) -> float:
    """GB/s; the first round warms up, and compiles."""
    best = float("inf")
    for number in range(rounds + 1):
        started_s = time.perf_counter()
        work()
        if number:
            best = min(best, time.perf_counter() - started_s)
    return size / best / _GB


def _copies(device: Any, size: int, rounds: int) -> dict[str, float]:
    host, one, other = device.pinned(size), device.empty(size), device.empty(size)
    stream = device.stream()

    def copy(target: torch.Tensor, source: torch.Tensor) -> None:
        stream.copy(target, source)
        stream.record().wait()

    return {
        "on device": _best(lambda: copy(other, one), size, rounds),
        "up": _best(lambda: copy(one, host), size, rounds),
        "down": _best(lambda: copy(host, one), size, rounds),
    }


def _from_host(engine: Any, frames: list[Frame], rounds: int) -> dict[str, float]:
    """Verified and hashed, from bytes to bytes, as the proxy does it."""
    size = sum(len(frame.data) for frame in frames)
    threads = getattr(engine, "frames_at_once", 1)
    with ThreadPoolExecutor(threads) as pool:
        coded = list(pool.map(lambda frame: encode_frame(frame, engine), frames))
        stored = [one.header + bytes(one.payload) for one in coded]
        encode = _best(lambda: list(pool.map(lambda frame: encode_frame(frame, engine), frames)), size, rounds)
        decode = _best(lambda: list(pool.map(lambda one: decode_frame(one, engine), stored)), size, rounds)
    return {"stored": sum(map(len, stored)) / size, "encode": encode, "decode": decode}


def _device_frames(device: Any, frames: list[Frame]) -> list[DeviceFrame]:
    made = []
    for frame in frames:
        data = device.empty(len(frame.data))
        data.copy_(torch.frombuffer(bytearray(frame.data), dtype=torch.uint8))
        made.append(DeviceFrame(data, frame.element, frame.grid))
    return made


def _on_device(device: Any, frames: list[Frame], rounds: int) -> dict[str, float]:
    """The codec alone: 32 frames a batch, from device memory to device memory."""
    from s4weights.codec.gpu.interface import StoredFrame
    from s4weights.codec.types import Layout

    batch = _device_frames(device, frames[:32])
    size = sum(frame.data.numel() for frame in batch)
    coded = device.codec.encode(batch, Level.BALANCED)
    stored, out = [], []
    for frame, one in zip(batch, coded.frames, strict=True):
        if one.layout is not Layout.RAW:
            payload = coded.payload[one.offset : one.offset + one.stored_bytes]
            n = frame.data.numel()
            stored.append(StoredFrame(payload, one.element, one.predictor, one.layout, len(one.modes), n))
            out.append(device.empty(n))
    return {
        "encode": _best(lambda: _wait(device, device.codec.encode(batch, Level.BALANCED)), size, rounds),
        "decode": _best(lambda: _wait(device, device.codec.decode(stored, out)), size, rounds),
    }


def _wait(device: Any, _: object) -> None:
    device.arrived().wait()


def _kernels(device: Any, frames: list[Frame]) -> dict[str, float]:
    """GB/s of each kernel, over the logical bytes of the batch that it worked for."""
    batch = _device_frames(device, frames[:32])
    size = sum(frame.data.numel() for frame in batch)
    device.codec.encode(batch, Level.BALANCED)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        device.codec.encode(batch, Level.BALANCED)
        torch.cuda.synchronize()
    found = {}
    for event in profile.key_averages():
        spent_us = float(event.self_device_time_total)
        if spent_us > 0:
            found[event.key] = size / (spent_us * 1e-6) / _GB
    return dict(sorted(found.items(), key=lambda one: one[1]))


def _zstd(frames: list[Frame]) -> dict[str, float]:
    coder = zstandard.ZstdCompressor(level=3)
    size = sum(len(frame.data) for frame in frames)
    stored = sum(len(coder.compress(frame.data)) for frame in frames)
    return {
        "stored": stored / size,
        "encode": _best(lambda: [coder.compress(frame.data) for frame in frames], size, 1),
    }


def _nvcomp_ans(device: Any, body: Body, rounds: int) -> dict[str, Any]:
    """On the bytes as they are, in pages; their stored share and speed."""
    try:
        coder = PageCoder("ANS")
    except EngineUnavailable as error:
        return {"missing": str(error)}
    data = device.empty(min(len(body.data), 64 << 20))
    data.copy_(torch.frombuffer(bytearray(body.data[: data.numel()]), dtype=torch.uint8))
    pages = [data[at : at + PAGE_BYTES] for at in range(0, data.numel(), PAGE_BYTES)]
    stored = sum(page.numel() for page in coder.encode(pages))
    return {
        "stored": stored / data.numel(),
        "encode": _best(lambda: _wait(device, coder.encode(pages)), data.numel(), rounds),
    }
