"""Whether bases gain: what was offered and not taken is offered seldom."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

# Frames in a row that would have none of it.
_MOST_MISSES: Final = 6
# From then on one frame of so many is tried.
_RETRY_EVERY: Final = 32


@dataclass(slots=True)
class _Record:
    misses: int = 0
    passed_over: int = 0


class Worth:
    """By key: what the frames have in common that gain or do not."""

    def __init__(self) -> None:
        self._records: dict[Hashable, _Record] = {}

    def is_worth(self, key: Hashable) -> bool:
        """Whether to offer it to the next frame; asked once a frame."""
        record = self._records.setdefault(key, _Record())
        if record.misses < _MOST_MISSES:
            return True
        record.passed_over += 1
        return record.passed_over % _RETRY_EVERY == 0

    def learn(self, key: Hashable, *, was_taken: bool) -> None:
        """What a frame did to which it was offered."""
        record = self._records[key]
        record.misses = 0 if was_taken else record.misses + 1
