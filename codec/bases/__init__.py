"""What a frame may be predicted from: which range, of which body. Source: docs/format.md, sections 2.3 and 5.7."""

from __future__ import annotations

from .planner import FRAMES_AHEAD, BasePlanner
from .tensors import BaseTable, Tensor

__all__ = ["FRAMES_AHEAD", "BasePlanner", "BaseTable", "Tensor"]
