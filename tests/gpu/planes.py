"""Planes for the coders: what real ones look like, and what is hard for them."""

from __future__ import annotations

import numpy as np

from s4weights.codec.planes import split_planes
from s4weights.codec.types import ElementType, Layout
from tests.codec.engines.bodies import moments, weights


def exponents(count: int) -> bytes:
    """Of trained weights in bf16."""
    return split_planes(weights(count, ElementType.BF16), ElementType.BF16, Layout.ROTATED_1)[1]


def second_moments(count: int) -> bytes:
    """The exponents of Adam's second moments, flatter."""
    rows = -(-count // 64)
    return split_planes(moments(rows, 64, ElementType.F32), ElementType.F32, Layout.ROTATED_1)[3][:count]


def uniform(count: int) -> bytes:
    """Every value; rANS makes it longer."""
    return np.random.default_rng(1).integers(0, 256, count).astype(np.uint8).tobytes()


def two_symbols(count: int) -> bytes:
    """One of them nearly always: its frequency is 4095."""
    found = np.full(count, 7, dtype=np.uint8)
    found[:: max(2, count // 3)] = 200
    return found.tobytes()


def geometric(count: int) -> bytes:
    """A few values often, and a long tail of frequency 1."""
    return np.random.default_rng(2).geometric(0.1, count).clip(0, 255).astype(np.uint8).tobytes()


KINDS = (exponents, second_moments, uniform, two_symbols, geometric)
