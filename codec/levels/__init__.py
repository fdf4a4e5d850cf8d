"""Predictor 1, levels: what a row and a column say of an exponent, taken away and given back.

Source: docs/format.md, sections 2.3 and 5.2.
"""

from __future__ import annotations

from .elements import Numbers, add, subtract, top_words
from .fit import fit
from .model import HEAD_BYTES, Head, Levels, read_head, read_levels

__all__ = [
    "HEAD_BYTES",
    "Head",
    "Levels",
    "Numbers",
    "add",
    "fit",
    "read_head",
    "read_levels",
    "subtract",
    "top_words",
]
