"""A checkpoint cut into the parts of an upload, each in several forms."""

from __future__ import annotations

from typing import Final

import numpy as np

from .test_deltas import file_of, rounded

ELEMENTS: Final = 5_000
CUT: Final = 23_456
SMALLEST: Final = 2_000
SMALL: Final = 3
"""This variant of a part is shorter than the bucket allows of any but the last."""
NONE: Final = -1

_random = np.random.default_rng(7)


def _checkpoint(moved: float) -> bytes:
    tensors = {}
    for number in range(4):
        weights = np.random.default_rng(number).normal(0, 0.02, ELEMENTS) + moved
        tensors[f"w{number}"] = ("BF16", rounded(weights))
        tensors[f"m{number}"] = ("F32", weights.astype("<f4").tobytes())
    return file_of(tensors)


BASE: Final = _checkpoint(0)
VARIANTS: Final = [_checkpoint(1e-5), _checkpoint(2e-5), _random.bytes(len(BASE))]
NUMBERS: Final = range(1, -(-len(BASE) // CUT) + 1)
PIECES: Final = {
    (number, variant): data[(number - 1) * CUT : number * CUT]
    for number in NUMBERS
    for variant, data in enumerate(VARIANTS)
} | {(number, SMALL): bytes([number]) * (SMALLEST - number) for number in NUMBERS}

Chosen = tuple[tuple[int, int], ...]
"""Of a Complete: (number, variant) of each part."""


def joined(chosen: Chosen) -> bytes:
    return b"".join(PIECES[one] for one in chosen)


def named(data: bytes | None) -> str:
    if data is None:
        return "nothing"
    pieces = [key for key, piece in PIECES.items() if piece in data]
    return f"{len(data)} bytes, with {pieces}"
