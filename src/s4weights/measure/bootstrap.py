"""How far the mean of a sample may be from the truth. Source: Efron and Tibshirani, An Introduction to the Bootstrap."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

REPLICATES: Final = 2000
CONFIDENCE: Final = 0.9
# Of the normal distribution, for CONFIDENCE between both bounds.
_Z: Final = 1.6449


def deviations(values: Floats, unseen: float, rng: np.random.Generator) -> Floats:
    """How means of samples drawn again from values differ from their mean: one number a replicate.

    unseen: the share of the whole that was not sampled; where it is 0 nothing is uncertain.
    """
    count = len(values)
    if count < 2 or unseen <= 0:
        return np.zeros(REPLICATES)
    means: Floats = values[rng.integers(0, count, (REPLICATES, count))].mean(axis=1)
    # A sample's own spread is (count - 1) / count of the whole's.
    errors: Floats = (means - values.mean()) * math.sqrt(unseen * count / (count - 1))
    return errors


def interval(errors: Floats, freedom: int) -> tuple[float, float]:
    """Below and above the estimate: CONFIDENCE, half of the rest on each side.

    freedom: values less means that were taken of them. Few show less of the spread than there is: wider, as Student's t is
    wider than the normal distribution.
    """
    tail = (1.0 - CONFIDENCE) / 2
    low, high = np.quantile(errors, [tail, 1.0 - tail]) * (_student(max(freedom, 1)) / _Z)
    return float(low), float(high)


def _student(freedom: int) -> float:
    """Student's t for the same share as _Z. Source: Abramowitz and Stegun, 26.7.5, the first four terms."""
    z = _Z
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return math.fsum(term / float(freedom) ** power for power, term in enumerate(terms))
