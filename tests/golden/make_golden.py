"""Make the golden containers of a format version, by the reference.

Files that exist are never written again: they are the promise.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from s4weights.codec.engines import ReferenceEngine
from s4weights.codec.types import ElementType, Level
from tests.codec.samples import normal, pack, safetensors_raw
from tests.golden.make_frames import moments

FOLDER = Path(__file__).parent / "v1"


def one_tensor(dtype: str, shape: list[int], data: bytes) -> bytes:
    return safetensors_raw({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}}, data)


def bodies() -> dict[str, tuple[bytes, Level]]:
    """By name; how hard each is tried on."""
    positive = (np.frombuffer(normal(5_000, "f32", seed=1), "<u4") & 0x7FFFFFFF).tobytes()
    second = one_tensor("F32", [64, 48], moments(64, 48, ElementType.F32))
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
    tried = {f"moments-{level.value}": (second, level) for level in Level}
    return {name: (body, Level.BALANCED) for name, body in balanced.items()} | tried


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    manifest = FOLDER / "manifest.json"
    known = json.loads(manifest.read_text()) if manifest.exists() else {}
    for name, (body, level) in bodies().items():
        if name in known or (FOLDER / f"{name}.s4w").exists():
            sys.stderr.write(f"{name}: exists\n")
            continue
        (FOLDER / f"{name}.s4w").write_bytes(pack(body, ReferenceEngine(), level=level)[0])
        known[name] = {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body), "level": level.value}
    manifest.write_text(json.dumps(known, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
