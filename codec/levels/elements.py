"""The top 16 bits of a float after a rotation by one: H in docs/format.md, section 2.3."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..types import Buffer, ElementType

Numbers: TypeAlias = npt.NDArray[np.int64]


def top_words(data: Buffer, element: ElementType) -> Numbers:
    """H of every element."""
    return _top(_rotated(data, element)).astype(np.int64)


def subtract(data: Buffer, element: ElementType, predicted: Numbers) -> bytes:
    """Elements with H - P for H. predicted: one an element."""
    turned = _rotated(data, element)
    top = _top(turned)
    top -= predicted.astype(np.uint16)
    return (turned >> 1 | turned << (8 * element.width - 1)).tobytes()


def add(data: Buffer, element: ElementType, predicted: Numbers) -> bytes:
    """The exact inverse of subtract."""
    return subtract(data, element, -predicted)


def _rotated(data: Buffer, element: ElementType) -> npt.NDArray[Any]:
    words = np.frombuffer(data, dtype=f"<u{element.width}")
    return words << 1 | words >> (8 * element.width - 1)


def _top(words: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """A view of the top 16 bits."""
    halves = words.dtype.itemsize // 2
    return words.view("<u2")[halves - 1 :: halves]
