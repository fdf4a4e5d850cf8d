"""Planes of a frame on its device, by torch alone: for coders beside the kernels. Source: docs/format.md, 2.2."""

from __future__ import annotations

from typing import Final

import torch

from ..types import ElementType, Layout

_WORDS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def split_planes(data: torch.Tensor, element: ElementType, layout: Layout) -> list[torch.Tensor]:
    """data: n elements as bytes (uint8, 1-D, contiguous). Returns the element's width of planes of n bytes each."""
    width, rotation = element.width, layout.rotation
    if rotation:
        words = data.clone().view(_WORDS[width])
        # Shifts to the right bring copies of the sign, which the mask takes off.
        data = (words << rotation | words >> 8 * width - rotation & (1 << rotation) - 1).view(torch.uint8)
    elements = data.view(-1, width)
    return [elements[:, k].contiguous() for k in range(width)]
