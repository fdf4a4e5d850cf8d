"""Stored size of real files beside the order-0 bound of their planes, and the codec's speed beside memcpy."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import make_data
import numpy as np
from results import machine, markdown_table, write_section
from train_gpt import PRECISIONS, save_checkpoints

from s4weights.codec.decode import decode_frame, read_tail
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import NativeEngine
from s4weights.codec.types import ElementType, Frame

ENGINE = NativeEngine()
# (exponent bits, mantissa bits) of a float type.
FIELDS = {"BF16": (8, 7), "F16": (5, 10), "F32": (8, 23), "F64": (11, 52)}


def entropy_bytes(symbols: np.ndarray) -> float:
    """What an ideal order-0 coder needs for these symbols, its table not counted."""
    counts = np.unique(symbols, return_counts=True)[1]
    shares = counts / len(symbols)
    return float(-(shares * np.log2(shares)).sum() * len(symbols) / 8)


def order0_bound(body: bytes, segments: list[list[Any]]) -> float:
    """Of every tensor: the entropy of its signs, of its exponents, and of each byte of its mantissas, one table a tensor and
    field; of everything else its bytes as they are."""
    total = float(len(body))
    for start, length, element, _, _ in segments:
        if element not in FIELDS:
            continue
        exponent_bits, mantissa_bits = FIELDS[element]
        width = ElementType[element].width
        words = np.frombuffer(body[start : start + length], dtype=f"<u{width}").astype(np.uint64)
        fields = [
            words >> np.uint64(8 * width - 1),
            (words >> np.uint64(mantissa_bits)) & np.uint64((1 << exponent_bits) - 1),
        ]
        mantissa = words & np.uint64((1 << mantissa_bits) - 1)
        fields += [(mantissa >> np.uint64(shift)) & np.uint64(0xFF) for shift in range(0, mantissa_bits, 8)]
        total += sum(map(entropy_bytes, fields)) - length
    return total


def pack(body: bytes) -> tuple[bytes, Encoder, list[Frame]]:
    encoder = Encoder()
    frames = encoder.plan(body) + encoder.plan_end()
    out = [encoder.start(), *(encoder.add(encode_frame(frame, ENGINE)) for frame in frames), encoder.finish()]
    return b"".join(out), encoder, frames


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def speeds(body: bytes, container: bytes, frames: list[Frame], runs: int) -> dict[str, float]:
    """GB/s of body, one thread, medians of pairs: each run measures everything once."""
    index = read_tail(container, object_bytes=len(container)).index
    assert index is not None
    stored = [(container[one.stored_start :][: one.stored_bytes], one) for one in index.spans()]
    pieces = [body[at : at + (1 << 20)] for at in range(0, len(body), 1 << 20)]
    works: dict[str, Callable[[], object]] = {
        "memcpy": lambda: [bytearray(piece) for piece in pieces],
        "encode": lambda: [ENGINE.encode(frame.data, frame.element) for frame in frames],
        "encode+verify": lambda: [encode_frame(frame, ENGINE) for frame in frames],
        "decode": lambda: [decode_frame(piece, ENGINE, expected=span) for piece, span in stored],
    }
    measured: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            measured[name].append(seconds(work))
    return {name: len(body) / median(times) / 1e9 for name, times in measured.items()}


ZIPNN = """
import sys, zipnn
body = open(sys.argv[1], "rb").read()
coder = zipnn.ZipNN(bytearray_dtype=sys.argv[2], threads=1, input_format="byte")
print(len(coder.compress(bytearray(body))))
"""


def zipnn_ratio(path: Path, size: int) -> str:
    """Of the same file, as the type that most of it has. In a process of its own: it has brought this one down."""
    if importlib.util.find_spec("zipnn") is None:
        return ""
    dtype = (
        "bfloat16" if "bf16" in path.name or (path.name.endswith("safetensors") and "mixed" in path.name) else "float32"
    )
    done = subprocess.run([sys.executable, "-c", ZIPNN, path, dtype], capture_output=True, text=True, check=False)
    return f"{size / int(done.stdout):.3f}" if done.returncode == 0 else "crashed"


def bf16_weights(path: Path) -> bool:
    return path.suffix == ".safetensors" and ("mixed" in path.name or "-bf16-" in path.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", default="small", choices=("tiny", "small"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    paths = [make_data.package_file(requirement) for requirement in make_data.PACKAGES]
    paths += save_checkpoints(make_data.DATA, options.size, PRECISIONS, [options.steps])
    rows, records = [], []
    for path in paths:
        body = path.read_bytes()
        container, encoder, frames = pack(body)
        bound = order0_bound(body, encoder.segments)
        fast = speeds(body, container, frames, options.runs)
        record = {
            "file": path.name, "logical": len(body), "stored": len(container), "bound": round(bound), **fast,
        }  # fmt: skip
        records.append(record)
        rows.append(
            [
                path.name,
                f"{len(body) / 1e6:.1f}",
                f"{len(container) / 1e6:.2f}",
                f"{len(body) / len(container):.3f}",
                f"{bound / 1e6:.2f}",
                f"{len(container) / bound:.4f}",
                *(f"{fast[name]:.2f}" for name in ("encode", "encode+verify", "decode", "memcpy")),
                zipnn_ratio(path, len(body)),
            ]
        )
        print(json.dumps(record), flush=True)
    noise = os.urandom(16 << 20)
    container, encoder, _ = pack(noise)
    columns = [
        *("file", "MB", "stored MB", "ratio", "order-0 bound MB", "stored / bound"),
        *("encode GB/s", "with verification", "decode GB/s", "memcpy GB/s", "zipnn ratio"),
    ]
    text = (
        "One thread, medians of pairs in one run. The bound is the order-0 entropy of every tensor's signs, exponents and "
        "mantissa bytes, one ideal table a tensor and field, tables not counted; bytes without a type count in full.\n\n"
        f"{markdown_table(columns, rows)}\n\n"
        f"16 MiB of random bytes: {encoder.totals.frames} frames, {len(container) - len(noise)} bytes more "
        f"({encoder.totals.frames} headers of 40 bytes, header, index and trailer) when packed; through the proxy 0, they "
        f"pass through.\n\n{machine()}"
    )
    print(text)
    if not options.dry_run:
        write_section("Size and speed of the codec", text)
    for path, record in zip(paths, records, strict=True):
        if bf16_weights(path) and record["stored"] > 1.01 * record["bound"]:
            raise SystemExit(f"{path.name}: stored size is more than 1.01 of the bound")


if __name__ == "__main__":
    main()
