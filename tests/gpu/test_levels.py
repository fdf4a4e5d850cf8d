"""Levels and products fitted on the device are those of the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec import levels
from s4weights.codec.gpu.interface import DeviceFrame
from s4weights.codec.gpu.jobs import Job
from s4weights.codec.gpu.level_fitting import LevelFits
from s4weights.codec.types import ElementType, Grid, Level
from tests.codec.engines.bodies import FLOATS, as_floats, cut, moments, weights


def frames(element):
    """Whole and ragged, few and many columns, with and without products, and some that have none."""
    yield moments(40, 100, element), Grid(100)
    yield cut(moments(90, 61, element, 1, products=2), element, 61, 20, 61 * 80 + 7)
    yield cut(moments(700, 16, element, 2), element, 16, 5, 16 * 690)
    yield moments(12, 600, element, 3, products=3), Grid(600)
    yield weights(6000, element), Grid(60)
    yield as_floats(np.zeros(4000), element), Grid(40)
    # Fewer whole rows than eight, and too many rows and columns for the elements.
    yield moments(8, 64, element), Grid(64, 1)
    yield moments(30, 16, element), Grid(16)
    # All rows alike but six.
    same = np.ones((64, 50)) * 0.01
    same[::11] = np.exp(np.random.default_rng(0).normal(0, 3, (6, 50)))
    yield as_floats(same, element), Grid(50)


@pytest.mark.parametrize("level", [Level.BALANCED, Level.SMALL], ids=lambda one: one.value)
@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
def test_what_is_fitted_is_what_the_oracle_fits(launcher, rooms, element, level):
    most = 4 if level is Level.BALANCED else 8
    jobs = [Job.of(DeviceFrame(rooms.holding(data), element, grid)) for data, grid in frames(element)]
    found = {id(job): fitted for job, fitted in LevelFits(launcher, jobs, level).read()}
    products = []
    for job, (data, grid) in zip(jobs, frames(element), strict=True):
        expected = levels.fit(data, element, grid, most)
        fitted = found.get(id(job))
        assert (fitted is None) is (expected is None)
        if expected is None or fitted is None:
            continue
        assert (fitted.base, fitted.products) == (expected.base, expected.products)
        products.append(fitted.products)
        for of_device, plane in zip((fitted.rows, fitted.columns), expected.planes(), strict=True):
            assert of_device.cpu().numpy().tobytes()[: len(plane)] == plane
    assert 0 in products
    assert max(products) >= 2


def test_fast_fits_nothing(launcher, rooms):
    element = ElementType.BF16
    job = Job.of(DeviceFrame(rooms.holding(moments(40, 100, element)), element, Grid(100)))
    assert LevelFits(launcher, [job], Level.FAST).read() == []
