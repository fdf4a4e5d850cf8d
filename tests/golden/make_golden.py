"""Make the golden containers of a format version. Files that exist are never written again: they are the promise."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from tests.codec.samples import normal, pack, safetensors_raw

FOLDER = Path(__file__).parent / "v1"


def bodies() -> dict[str, bytes]:
    bf16 = normal(6_000)
    header = {"w": {"dtype": "BF16", "shape": [60, 100], "data_offsets": [0, len(bf16)]}}
    f32 = normal(5_000, "f32", seed=1)
    state = {"v": {"dtype": "F32", "shape": [5_000], "data_offsets": [0, len(f32)]}}
    ids = np.arange(4_000, dtype="<i8").tobytes()
    table = {"ids": {"dtype": "I64", "shape": [4_000], "data_offsets": [0, len(ids)]}}
    return {
        "bf16": safetensors_raw(header, bf16),
        "f32-positive": safetensors_raw(state, (np.frombuffer(f32, "<u4") & 0x7FFFFFFF).tobytes()),
        "i64": safetensors_raw(table, ids),
        "text": b"never lose a checkpoint, never show a wrong byte; " * 40,
        "noise": np.random.default_rng(2).bytes(500),
        "zeros": bytes(64),
        "empty": b"",
    }


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    manifest = FOLDER / "manifest.json"
    known = json.loads(manifest.read_text()) if manifest.exists() else {}
    for name, body in bodies().items():
        if name in known or (FOLDER / f"{name}.s4w").exists():
            sys.stderr.write(f"{name}: exists\n")
            continue
        (FOLDER / f"{name}.s4w").write_bytes(pack(body)[0])
        known[name] = {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}
    manifest.write_text(json.dumps(known, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
