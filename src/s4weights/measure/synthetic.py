"""A checkpoint that nobody trained: for a first look where no file is at hand. Its shapes and levels imitate AdamW's."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from s4weights.codec.types import ElementType

NAME: Final = "synthetic checkpoint"
_TENSORS: Final = 8
_ROWS: Final = 1024
_COLUMNS: Final = 256


class SyntheticSource:
    """See sources.Source: a safetensors body in memory; bf16 weights, fp32 master, m and v of 2 Mi parameters."""

    def __init__(self) -> None:
        self.name = NAME
        self.read_bytes = 0
        self._body = make_checkpoint()
        self.size = len(self._body)

    def read(self, start: int, length: int) -> bytes:
        """See Source."""
        self.read_bytes += length
        return self._body[start : start + length]


def make_checkpoint() -> bytes:
    """The same bytes in every call.

    Weights are normal; m and v follow a level a row times a level a column, as a trained model's nearly do.
    """
    rng = np.random.default_rng(0)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    pieces: list[bytes] = []
    at = 0
    for name, element, values in _tensors(rng):
        data = values.tobytes()
        header[name] = {"dtype": element.name, "shape": list(values.shape), "data_offsets": [at, at + len(data)]}
        pieces.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *pieces])


def _tensors(rng: np.random.Generator) -> list[tuple[str, ElementType, Any]]:
    made: dict[str, list[tuple[str, ElementType, Any]]] = {"weight": [], "master": [], "m": [], "v": []}
    for number in range(_TENSORS):
        shape = (_ROWS, _COLUMNS)
        weights = rng.normal(0, 0.02 * 1.5 ** rng.normal(), shape).astype("<f4")
        level = np.exp(rng.normal(-9, 1) + rng.normal(0, 0.8, (_ROWS, 1)) + rng.normal(0, 0.8, (1, _COLUMNS)))
        v = (level**2 * rng.chisquare(8, shape) / 8).astype("<f4")
        m = (level * rng.normal(0, 0.3, shape)).astype("<f4")
        name = f"layers.{number}.weight"
        made["weight"].append((f"model.{name}", ElementType.BF16, _to_bf16(weights)))
        made["master"].append((f"master.{name}", ElementType.F32, weights))
        made["m"].append((f"optimizer.{name}.exp_avg", ElementType.F32, m))
        made["v"].append((f"optimizer.{name}.exp_avg_sq", ElementType.F32, v))
    return [tensor for kind in made.values() for tensor in kind]


def _to_bf16(values: Any) -> Any:
    """Round to nearest, ties to even."""
    bits = values.view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
