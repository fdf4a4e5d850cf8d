"""Elements to byte planes and back, in numpy: the oracle of the native kernels. Source: docs/format.md, section 2.2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import FormatError
from .types import Buffer, ElementType, Layout

_Words: TypeAlias = npt.NDArray[Any]


def split_planes(data: Buffer, element: ElementType, layout: Layout) -> list[bytes]:
    """Gather byte k of every element into plane k, after a rotation to the left by the layout's bits.

    data: n elements, little-endian. Returns element.width planes of n bytes each, the least significant first.
    Raises: FormatError if len(data) is not a multiple of the width.
    """
    width = element.width
    if len(data) % width:
        raise FormatError(f"planes: expected a multiple of {width} bytes, found {len(data)}")
    words = _rotated(np.frombuffer(data, dtype=f"<u{width}"), layout.rotation)
    octets = np.ascontiguousarray(words).view(np.uint8).reshape(-1, width)
    return [octets[:, k].tobytes() for k in range(width)]


def join_planes(planes: Sequence[Buffer], element: ElementType, layout: Layout) -> bytes:
    """The exact inverse of split_planes.

    Raises: FormatError if planes are missing or of different lengths.
    """
    width = element.width
    if len(planes) != width or len({len(plane) for plane in planes}) != 1:
        raise FormatError(f"planes: expected {width} of one length, found {[len(plane) for plane in planes]}")
    octets = np.stack([np.frombuffer(plane, dtype=np.uint8) for plane in planes], axis=1)
    words = np.ascontiguousarray(octets).view(f"<u{width}").reshape(-1)
    return _rotated(words, 8 * width - layout.rotation).tobytes()


def _rotated(words: _Words, bits: int) -> _Words:
    width = 8 * words.dtype.itemsize
    bits %= width
    return words if bits == 0 else words << bits | words >> (width - bits)
