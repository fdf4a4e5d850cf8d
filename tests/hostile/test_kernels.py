"""Frames and payloads on which the native kernels once failed."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.types import ElementType, Grid, Level, Predictor

NATIVE, REFERENCE = NativeEngine(), ReferenceEngine()


def far_from_its_levels(columns: int, rows: int, *, shared: bool) -> np.ndarray:
    """Elements many octaves from what row and column say, at random or by a product of the two.

    What is left of a row's squares does not fit 32 bits.
    """
    random = np.random.default_rng(0)
    if shared:
        high = np.add.outer(random.integers(0, 2, rows), random.integers(0, 2, columns)) % 2
    else:
        high = random.integers(0, 2, (rows, columns))
    scale = random.integers(0, 40, (rows, 1))
    return np.exp2(40.0 * high - 20 + scale) * (1 + random.random((rows, columns)))


@pytest.mark.parametrize("level", [Level.BALANCED, Level.SMALL])
@pytest.mark.parametrize(("element", "dtype"), [(ElementType.F32, "<f4"), (ElementType.F64, "<f8")])
@pytest.mark.parametrize("shared", [False, True], ids=["random", "shared"])
def test_squares_of_more_than_32_bits_are_summed_exactly(element, dtype, shared, level):
    data = far_from_its_levels(1_024, 64, shared=shared).astype(dtype).tobytes()
    grid = Grid(1_024, 0)
    native = NATIVE.encode(data, element, grid=grid, level=level)
    reference = REFERENCE.encode(data, element, grid=grid, level=level)
    assert bytes(native.payload) == bytes(reference.payload)
    assert NATIVE.decodes_to(native, data)


def test_such_a_frame_has_levels():
    """Else the test above would compare nothing of them."""
    data = far_from_its_levels(1_024, 64, shared=True).astype("<f4").tobytes()
    assert NATIVE.encode(data, ElementType.F32, grid=Grid(1_024, 0)).predictor is Predictor.LEVELS
