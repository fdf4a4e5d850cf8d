"""Predictors 2 to 5, from the elements of a base, in numpy: the oracle of the native kernels.

Source: docs/format.md, section 2.3.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .types import Buffer, ElementType, Predictor

_Words: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]


def narrow(wide: Buffer) -> bytes:
    """fp32 to bf16, rounded to the nearest, ties to even; of NaN what the same sum gives."""
    return _narrow(_words(wide, 4)).tobytes()


def predict(element: ElementType, predictor: Predictor, base: Buffer) -> bytes:
    """What a frame with layout RAW is: the base itself, or narrowed. base: as many elements as the frame's."""
    return narrow(base) if predictor is Predictor.NARROWED else bytes(base)


def subtract(data: Buffer, element: ElementType, predictor: Predictor, base: Buffer) -> bytes:
    """What is split into planes, and has the frame's length. base: as many elements as the frame's."""
    x = _words(data, element.width)
    match predictor:
        case Predictor.XOR:
            rest = x ^ _words(base, element.width)
        case Predictor.DIFFERENCE:
            rest = _zigzag(_order(x, element) - _order(_words(base, element.width), element))
        case Predictor.NARROWED:
            rest = x ^ _narrow(_words(base, 4))
        case _:
            rest = x - _widen(_words(base, 2))
    return rest.tobytes()


def add(rest: Buffer, element: ElementType, predictor: Predictor, base: Buffer) -> bytes:
    """The exact inverse of subtract."""
    z = _words(rest, element.width)
    match predictor:
        case Predictor.XOR:
            x = z ^ _words(base, element.width)
        case Predictor.DIFFERENCE:
            x = _unorder(_unzigzag(z) + _order(_words(base, element.width), element), element)
        case Predictor.NARROWED:
            x = z ^ _narrow(_words(base, 4))
        case _:
            x = z + _widen(_words(base, 2))
    return x.tobytes()


def _words(data: Buffer, width: int) -> _Words:
    return np.frombuffer(data, dtype=f"<u{width}")


def _narrow(wide: _Words) -> _Words:
    return ((wide + (wide >> 16 & 1) + np.uint32(32767)) >> 16).astype("<u2")


def _widen(narrowed: _Words) -> _Words:
    return (narrowed.astype("<u4") << np.uint8(16)) - np.uint32(32768)


def _top(words: _Words) -> _Words:
    """Of every word the top bit alone, as 0 or 1."""
    return words >> np.uint8(8 * words.dtype.itemsize - 1)


def _order(x: _Words, element: ElementType) -> _Words:
    """Ascending as the values are."""
    return x ^ (-_top(x) | _top_bit(x)) if element.is_float else x


def _unorder(y: _Words, element: ElementType) -> _Words:
    return y ^ ((_top(y) - np.uint8(1)) | _top_bit(y)) if element.is_float else y


def _top_bit(words: _Words) -> _Words:
    return np.asarray(1 << (8 * words.dtype.itemsize - 1), dtype=words.dtype)


def _zigzag(d: _Words) -> _Words:
    """Small where d is near 0, from above or from below."""
    return (d << np.uint8(1)) ^ -_top(d)


def _unzigzag(z: _Words) -> _Words:
    return (z >> np.uint8(1)) ^ -(z & np.uint8(1))
