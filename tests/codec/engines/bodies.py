"""Frames for the engines: weights, moments with rows and columns, integers."""

from __future__ import annotations

import numpy as np

from s4weights.codec.types import ElementType, Grid

FLOATS = [ElementType.BF16, ElementType.F16, ElementType.F32, ElementType.F64]
TYPED = [element for element in ElementType if element is not ElementType.BYTES]


def as_floats(values: np.ndarray, element: ElementType) -> bytes:
    """Values in a float type; bf16 by cutting."""
    if element is ElementType.BF16:
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return values.astype({2: "<f2", 4: "<f4", 8: "<f8"}[element.width]).tobytes()


def weights(count: int, element: ElementType, seed: int = 0) -> bytes:
    """Like those of a trained layer."""
    return as_floats(np.random.default_rng(seed).normal(0, 0.02, count), element)


def moments(rows: int, columns: int, element: ElementType, seed: int = 0, products: int = 0) -> bytes:
    """Like Adam's second moments: a row's scale times a column's, and every ninth row never used.

    products: of factors of rows and of columns, in what that leaves.
    """
    rng = np.random.default_rng(seed)
    spread = 0.7 if element is ElementType.F16 else 2
    scales = np.exp(rng.normal(0, spread, (rows, 1))) * np.exp(rng.normal(0, spread, (1, columns)))
    for _ in range(products):
        scales *= np.exp(0.8 * spread / 2 * rng.normal(0, 1, (rows, 1)) * rng.normal(0, 1, (1, columns)))
    values = scales * rng.gamma(4, 0.25, (rows, columns)) * (1e-2 if element is ElementType.F16 else 1e-9)
    values[4::9] = 0
    return as_floats(values, element)


def cut(data: bytes, element: ElementType, columns: int, start: int, count: int) -> tuple[bytes, Grid]:
    """`count` elements from number `start` on, and where they lie."""
    width = element.width
    return data[start * width : (start + count) * width], Grid(columns, start % columns)


def symbols(count: int, skew: float, seed: int = 0) -> bytes:
    """Small values often, great ones seldom."""
    return np.random.default_rng(seed).geometric(skew, count).clip(0, 255).astype(np.uint8).tobytes()
