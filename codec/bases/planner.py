"""Bases for the frames of one body, in a stream and in one pass.

    planner = BasePlanner(tables)
    for frame in encoder.plan(chunk):
        wanted = planner.offers(frame)
        bases = tuple(Base(one.reference, one.kind, read(one)) for one in wanted)
        encoded = encode_frame(replace(frame, bases=bases), engine)
        planner.added(encoded)

Frames may be encoded FRAMES_AHEAD at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..errors import S4WeightsError
from ..limits import MIN_TYPED_BYTES
from ..types import BaseRange, EncodedFrame, Frame
from .align import Alignment
from .tensors import BaseTable
from .twins import Twins
from .worth import Worth

# What is offered to a frame depends on what became of those so far behind it, and never on the number of threads.
FRAMES_AHEAD: Final = 32
# Each costs a frame's bytes to read and a sample to look at.
_MOST_OFFERS: Final = 4
_LOOK: Final = 64


@dataclass(slots=True)
class _Planned:
    """keys: by number of the base, of what was offered."""

    start: int
    keys: dict[int, Hashable] = field(default_factory=dict)


class BasePlanner:
    """No I/O, no bytes of bases. Not thread-safe.

    size: of the body, where it is known. twins: whether frames may be predicted from their own body.
    """

    def __init__(self, tables: Sequence[BaseTable] = (), *, size: int | None = None, twins: bool = True) -> None:
        self._twins = Twins() if twins else None
        self._alignments = [(table.number, Alignment(table, size)) for table in tables]
        self._worth = Worth()
        self._planned: deque[_Planned] = deque()
        self._added: deque[tuple[_Planned, int | None]] = deque()

    def offers(self, frame: Frame) -> tuple[BaseRange, ...]:
        """The ranges worth a trial, the body's own first. frame: the next one, in order.

        Raises: S4WeightsError where more than FRAMES_AHEAD frames were planned and not added.
        """
        self._learn()
        planned = _Planned(frame.start)
        self._planned.append(planned)
        found = self._find(frame)
        if len(frame.data) < MIN_TYPED_BYTES or not found or _is_constant(frame):
            return ()
        name = frame.segments[0].name or ""
        offers: list[BaseRange] = []
        for one in found:
            key = (one.reference.number, frame.element, name.rpartition(".")[2])
            if len(offers) < _MOST_OFFERS and self._worth.is_worth(key):
                planned.keys[one.reference.number] = key
                offers.append(one)
        return tuple(offers)

    def added(self, encoded: EncodedFrame) -> None:
        """What became of a frame, in order."""
        planned = self._planned.popleft()
        if planned.start != encoded.start:
            raise S4WeightsError(f"planner: expected the frame at logical byte {planned.start}, found {encoded.start}")
        self._added.append((planned, None if encoded.base is None else encoded.base.number))

    def _find(self, frame: Frame) -> list[BaseRange]:
        """Every frame is looked at, whatever comes of it, since tensors are counted and remembered."""
        found = [self._twins.find(frame)] if self._twins is not None else []
        found.extend(alignment.find(frame) for _, alignment in self._alignments)
        return [one for one in found if one is not None]

    def _learn(self) -> None:
        if len(self._planned) >= FRAMES_AHEAD:
            raise S4WeightsError(f"planner: expected at most {FRAMES_AHEAD} frames ahead, found another")
        while len(self._planned) + len(self._added) >= FRAMES_AHEAD:
            planned, taken = self._added.popleft()
            for number, key in planned.keys.items():
                self._worth.learn(key, was_taken=number == taken)


def _is_constant(frame: Frame) -> bool:
    words = np.frombuffer(frame.data, dtype=f"<u{frame.element.width}")
    return bool((words[:_LOOK] == words[0]).all() and (words == words[0]).all())
