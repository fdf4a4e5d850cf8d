"""Make the golden containers of a format version, by the reference.

Files that exist are never written again: they are the promise.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from s4weights.codec.engines import Engine, ReferenceEngine
from s4weights.codec.types import ElementType, Level
from tests.codec.samples import normal, pack, safetensors_raw
from tests.golden.make_frames import moments, noise

FOLDER = Path(__file__).parent / "v1"
WEIGHTS = 5_000


def one_tensor(dtype: str, shape: list[int], data: bytes) -> bytes:
    return safetensors_raw({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}}, data)


@dataclass(frozen=True)
class Case:
    """One golden container. bases: names of others. with_twins: whether frames may be predicted from their own body."""

    body: bytes
    level: Level = Level.BALANCED
    bases: tuple[str, ...] = ()
    with_twins: bool = False


def cases() -> dict[str, Case]:
    """By name, bases before what needs them."""
    positive = (np.frombuffer(normal(5_000, "f32", seed=1), "<u4") & 0x7FFFFFFF).tobytes()
    second = one_tensor("F32", [64, 48], moments(64, 48, ElementType.F32))
    first_step, second_step = weights(0), weights(1)
    balanced = {
        "bf16": one_tensor("BF16", [60, 100], normal(6_000)),
        "f32-positive": one_tensor("F32", [5_000], positive),
        "i64": one_tensor("I64", [4_000], np.arange(4_000, dtype="<i8").tobytes()),
        "text": b"never lose a checkpoint, never show a wrong byte; " * 40,
        "noise": np.random.default_rng(2).bytes(500),
        "zeros": bytes(64),
        "several-frames": bytes(2_500_000),
        "empty": b"",
    }
    return {
        **{name: Case(body) for name, body in balanced.items()},
        **{f"moments-{level.value}": Case(second, level) for level in Level},
        "twins": Case(mixed(first_step, first_step), with_twins=True),
        "delta": Case(mixed(second_step, first_step), bases=("twins",), with_twins=True),
        "delta-of-delta": Case(one_tensor("F32", [WEIGHTS], second_step[0]), bases=("delta",), with_twins=True),
    }


def weights(step: int) -> tuple[bytes, bytes]:
    """fp32, a little further at each step, and what is rounded from it to bf16."""
    wide = np.frombuffer(normal(WEIGHTS, "f32", seed=3), "<u4") + (step * noise(WEIGHTS, 4, 5_000)).astype("<u4")
    return wide.tobytes(), (wide + 0x7FFF + (wide >> 16 & 1) >> 16).astype("<u2").tobytes()


def mixed(now: tuple[bytes, bytes], before: tuple[bytes, bytes]) -> bytes:
    """Master weights, what they were before, and a model rounded from them."""
    header, data = {}, b""
    for name, dtype, octets in (("master", "F32", now[0]), ("model", "BF16", now[1]), ("old", "F32", before[0])):
        header[name] = {"dtype": dtype, "shape": [WEIGHTS], "data_offsets": [len(data), len(data) + len(octets)]}
        data += octets
    return safetensors_raw(header, data)


def packed(name: str, engine: Engine) -> bytes:
    """What a writer of version 1 stores."""
    case = cases()[name]
    bases = {f"{base}.s4w": cases()[base].body for base in case.bases}
    return pack(case.body, engine, level=case.level, bases=bases, twins=case.with_twins)[0]


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    manifest = FOLDER / "manifest.json"
    known = json.loads(manifest.read_text()) if manifest.exists() else {}
    for name, case in cases().items():
        if name in known or (FOLDER / f"{name}.s4w").exists():
            sys.stderr.write(f"{name}: exists\n")
            continue
        (FOLDER / f"{name}.s4w").write_bytes(packed(name, ReferenceEngine()))
        known[name] = {"sha256": hashlib.sha256(case.body).hexdigest(), "bytes": len(case.body)}
    manifest.write_text(json.dumps(known, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
