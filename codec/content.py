"""What bytes hold, by themselves: elements of which type, and in which step.

A wrong answer costs ratio and nothing else. Source: the length of a plane under its own histogram plus that of the
histogram (Rissanen's minimum description length).
"""

from __future__ import annotations

import math
import zlib
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .types import Buffer, ElementType

# What find_elements looks at: 512 elements of the widest type.
SAMPLE_BYTES: Final = 4 << 10
# Of what is known to be a tensor; small, because the sample itself stays untyped.
TENSOR_SAMPLE_BYTES: Final = 1 << 10

# Pairs of elements make planes almost as good as the elements, smooth ones even better: a wider type has to save more.
_CANDIDATES: Final = {ElementType.BF16: 1.0, ElementType.F32: 1.03, ElementType.F64: 1.12}
# Of the same width; their highest bit goes with those below it, and they have to save more by that.
_INTEGERS: Final = {
    ElementType.BF16: ElementType.I16,
    ElementType.F32: ElementType.I32,
    ElementType.F64: ElementType.I64,
}
_INTEGER_WEIGHT: Final = 1.06
# A type has to save this part of the bytes, and of what they code to without one.
_MAX_RATIO: Final = 0.94
# Bits of entropy in the last plane. That of bf16 is an exponent (2 to 3 in practice); that of fp16 also has mantissa bits.
_BF16_MAX_BITS: Final = 4.2
# Nor much more than one that finds repetitions makes of them; fp64 saves no more than this.
_MAX_RATIO_TO_DEFLATE: Final = 0.98
# Numbers seldom repeat themselves, text, tables and code do: more of that in all of the body than in a sample.
_MIN_DEFLATE_RATIO: Final = 0.8
# Bits of entropy in a byte: below, it is nearly always the same; above, it is a mantissa's; between them lies what holds
# most of an exponent, or of a mantissa's end.
_CONSTANT_BITS: Final = 0.3
_MANTISSA_BITS: Final = 6.3
_COLUMNS: Final = 8

_Octets: TypeAlias = npt.NDArray[np.uint8]
_Counts: TypeAlias = npt.NDArray[np.int64]

# c * log2(c) for each count of a sample.
_C_LOG_C: Final = np.arange(SAMPLE_BYTES + 1) * np.log2(np.maximum(np.arange(SAMPLE_BYTES + 1), 1))


class Elements(NamedTuple):
    """element: BYTES for none. step: the offset of an element, modulo its width."""

    element: ElementType
    step: int = 0

    def first(self, offset: int) -> int:
        """The first offset from there on at which an element begins."""
        return offset + (self.step - offset) % self.element.width


NONE: Final = Elements(ElementType.BYTES)


def find_elements(sample: Buffer, offset: int, before: Elements = NONE) -> Elements:
    """The type and step whose planes pay; NONE where none does, and `before` where all bytes are the same.

    sample: SAMPLE_BYTES, from anywhere in the body. offset: that of its first byte. before: what was found in front of it.
    """
    octets = _whole(sample)
    if len(octets) < SAMPLE_BYTES // 2:
        return NONE
    columns = _count(octets.reshape(-1, _COLUMNS))
    whole = _folded(columns, 1)
    if whole.max() == len(octets):
        return before
    untyped = _bits(whole)
    # Whatever the type, its planes are these columns with the bits of a sign moved: most bodies end here.
    if min(_bits(_folded(columns, 2)), _bits(columns)) > _MAX_RATIO * untyped:
        return NONE
    deflated = 8 * len(zlib.compress(octets.tobytes(), 1))
    if deflated < _MIN_DEFLATE_RATIO * untyped:
        return NONE
    best, least = NONE, min(_MAX_RATIO * untyped, _MAX_RATIO_TO_DEFLATE * deflated) / len(octets)
    lowest = float("inf")
    for element, weight in _CANDIDATES.items():
        step = _step(_folded(columns, element.width), offset)
        if step is None:
            continue
        planes = _planes(octets[(step - offset) % element.width :], element)
        counts, bytes_as_they_lie = _count(planes), _folded(columns, element.width)
        share, as_integers = _bits(counts) / planes.size, _bits(bytes_as_they_lie) / len(octets)
        if _INTEGER_WEIGHT * as_integers < share:
            kind, share = _INTEGERS[element], as_integers
        else:
            kind = _named(element, counts)
        if share <= least and share * weight < lowest:
            best, lowest = Elements(kind, step), share * weight
    # bf16 and fp16 have the same planes, and a tensor may lie near the border between two names.
    same_planes = best.step == before.step and best.element.width == before.element.width
    return before if same_planes and before.element.is_float else best


def guess_element(sample: Buffer, *, is_tensor: bool = False) -> ElementType:
    """The type whose planes pay, where an element begins with the sample; BYTES where none does.

    is_tensor: it is known to hold elements, so that text need not be told apart by its repetitions.
    """
    octets = _whole(sample)
    if len(octets) < TENSOR_SAMPLE_BYTES // 2:
        return ElementType.BYTES
    counts = {element: _count(_planes(octets, element)) for element in _CANDIDATES}
    costs = {element: _bits(counts[element]) for element in _CANDIDATES}
    element = min(costs, key=lambda one: costs[one] * _CANDIDATES[one])
    untyped = _bits(np.bincount(octets, minlength=256)[np.newaxis])
    if not is_tensor:
        untyped = min(untyped, 8 * len(zlib.compress(octets.tobytes(), 1)))
    if costs[element] > _MAX_RATIO * untyped:
        return ElementType.BYTES
    return _named(element, counts[element])


def _whole(sample: Buffer) -> _Octets:
    octets = np.frombuffer(sample, dtype=np.uint8)[:SAMPLE_BYTES]
    return octets[: len(octets) // 8 * 8]


def _folded(columns: _Counts, width: int) -> _Counts:
    """Histograms of fewer columns."""
    folded: _Counts = columns.reshape(-1, width, 256).sum(axis=0)
    return folded


def _step(columns: _Counts, offset: int) -> int | None:
    """The offset of an element modulo its width; None where the bytes are not those of numbers.

    From its end on, an element has: most of an exponent; mantissa; a byte in which that ends, where the element was made
    from a shorter one; zeros. Without an exponent, elements lie at multiples of their width.
    """
    width, n = len(columns), int(columns[0].sum())
    entropies = (_C_LOG_C[n] - _C_LOG_C[columns].sum(axis=1)) / n
    if entropies.max() < _MANTISSA_BITS:
        return None
    classes = np.digitize(entropies, (_CONSTANT_BITS, _MANTISSA_BITS))
    between = np.flatnonzero(classes == 1)
    if len(between) == 0:
        return 0
    for last in between[entropies[between].argsort()]:
        below = classes[last - np.arange(1, width)]
        if width == 8 and below[0] == 1:
            below = below[1:]  # of fp64, four bits of the exponent and four of the mantissa
        if below[0] == 2 and (np.diff(below) <= 0).all() and np.count_nonzero(below == 1) <= 1:
            return int(offset + last + 1) % width
    return None


def _planes(octets: _Octets, element: ElementType) -> _Octets:
    """A column each, as codec/planes.py makes them."""
    width = element.width
    words = octets[: len(octets) // width * width].view(f"<u{width}")
    words = (words << 1) | (words >> (8 * width - 1))
    return words.view(np.uint8).reshape(-1, width)


def _count(columns: _Octets) -> _Counts:
    """A histogram for each column."""
    width = columns.shape[1]
    places = columns + 256 * np.arange(width)
    return np.bincount(places.reshape(-1), minlength=256 * width).reshape(width, 256)


def _bits(counts: _Counts) -> float:
    """Of all planes together, none of them longer than it is."""
    n = int(counts[0].sum())
    lengths = float(_C_LOG_C[n]) - _saved_bits(n)[counts].sum(axis=1)
    return float(np.minimum(lengths, 8 * n).sum())


@lru_cache(maxsize=16)
def _saved_bits(n: int) -> npt.NDArray[np.float64]:
    """By a symbol of each count in a plane of n, less its own share of the histogram."""
    return _C_LOG_C - np.sign(np.arange(SAMPLE_BYTES + 1)) * (math.log2(n) / 2)


def _named(element: ElementType, counts: _Counts) -> ElementType:
    if element is not ElementType.BF16:
        return element
    n = int(counts[0].sum())
    entropy = float(_C_LOG_C[n] - _C_LOG_C[counts[-1]].sum()) / n
    # Planes of both are the same.
    return ElementType.F16 if entropy > _BF16_MAX_BITS else element
