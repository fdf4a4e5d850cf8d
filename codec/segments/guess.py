"""The type of elements by their bytes alone: which planes would code smallest?

Source: the length of a plane under its own histogram plus that of the histogram (Rissanen's minimum description length).
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np

from ..types import Buffer, ElementType

# Enough for 128 elements of the widest type; small, because the sample itself stays untyped.
SAMPLE_BYTES: Final = 1 << 10

# Pairs of elements make planes almost as good as the elements, smooth ones even better: a wider type has to save more.
_CANDIDATES: Final = {ElementType.BF16: 1.0, ElementType.F32: 1.03, ElementType.F64: 1.12}
# A type has to save this part of the bytes, and of what they code to without one.
_MAX_RATIO: Final = 0.94
# Bits of entropy in the last plane. That of bf16 is an exponent (2 to 3 in practice); that of fp16 also has mantissa bits.
_BF16_MAX_BITS: Final = 4.2


def guess_element(sample: Buffer, *, is_tensor: bool = False) -> ElementType:
    """The type whose planes pay; BYTES where none does. sample: its first byte begins an element.

    is_tensor: it is known to hold elements, so that text need not be told apart by its repetitions.
    """
    octets = np.frombuffer(sample, dtype=np.uint8)
    octets = octets[: len(octets) // 8 * 8]
    if len(octets) < SAMPLE_BYTES // 2:
        return ElementType.BYTES
    costs = {element: _cost(octets, element) for element in _CANDIDATES}
    element = min(costs, key=lambda one: costs[one] * _CANDIDATES[one])
    untyped = min(8 * len(octets), _plane_bits(octets))
    if not is_tensor:
        untyped = min(untyped, 8 * len(zlib.compress(octets.tobytes(), 1)))
    if costs[element] > _MAX_RATIO * untyped:
        return ElementType.BYTES
    if element is ElementType.BF16 and _entropy(_planes(octets, element)[-1]) > _BF16_MAX_BITS:
        return ElementType.F16  # planes of both are the same
    return element


def _planes(octets: np.ndarray, element: ElementType) -> list[np.ndarray]:
    """As codec/planes.py makes them."""
    width = element.width
    words = octets.view(f"<u{width}")
    words = (words << 1) | (words >> (8 * width - 1))
    return list(words.view(np.uint8).reshape(-1, width).T)


def _cost(octets: np.ndarray, element: ElementType) -> float:
    return sum(min(8 * len(plane), _plane_bits(plane)) for plane in _planes(octets, element))


def _plane_bits(plane: np.ndarray) -> float:
    symbols = np.count_nonzero(np.bincount(plane, minlength=256))
    return len(plane) * _entropy(plane) + symbols / 2 * float(np.log2(len(plane)))


def _entropy(plane: np.ndarray) -> float:
    """Bits a symbol."""
    counts = np.bincount(plane, minlength=256)
    shares = counts[counts > 0] / len(plane)
    return float(-(shares * np.log2(shares)).sum())
