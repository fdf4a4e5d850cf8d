"""Which pieces of a component are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from .components import Component, Piece

# One alone says nothing of the spread.
MIN_PIECES: Final = 2


def spread(component: Component, count: int) -> list[Piece]:
    """So many pieces at equal distances; all of them where there are not more."""
    if component.pieces <= count:
        return list(component.all_pieces())
    step = component.logical_bytes / count
    return list(dict.fromkeys(component.piece_at(int((number + 0.5) * step)) for number in range(count)))


def draw(component: Component, count: int, rng: np.random.Generator) -> list[Piece]:
    """One piece at a random byte of each of count equal stretches; all of them, once, where there are not more.

    A piece is drawn as often as it is long, so that the mean of the pieces' own shares (stored by logical bytes) is the
    component's.
    """
    if component.pieces <= count:
        return list(component.all_pieces())
    edges = np.linspace(0, component.logical_bytes, count + 1)
    offsets = edges[:-1] + rng.random(count) * np.diff(edges)
    return [component.piece_at(min(int(offset), component.logical_bytes - 1)) for offset in offsets]


def shares(components: Sequence[Component], limit_bytes: int) -> list[int]:
    """How many pieces of each component may be read, about limit_bytes in all.

    By size, but at least MIN_PIECES of each; 0 where that does not go: fewer would say nothing.
    """
    total = sum(one.logical_bytes for one in components)
    if total <= limit_bytes:
        return [one.pieces for one in components]
    counts: list[int] = []
    left = float(limit_bytes)
    # The largest come first: they leave room for the least that the others need.
    needs = [_need(one) for one in components]
    for number, component in enumerate(components):
        most = max(left - sum(needs[number + 1 :]), min(needs[number], left))
        fair = limit_bytes * component.logical_bytes / total
        count = min(component.pieces, int(min(max(fair, needs[number]), most) / component.drawn_bytes))
        counts.append(count if count >= min(MIN_PIECES, component.pieces) else 0)
        left -= counts[-1] * component.drawn_bytes
    return counts


def is_enough(components: Sequence[Component], limit_bytes: int) -> bool:
    """Whether limit_bytes are the least that is needed of every component, or more."""
    return sum(map(_need, components)) <= limit_bytes


def _need(component: Component) -> float:
    return min(MIN_PIECES, component.pieces) * component.drawn_bytes
