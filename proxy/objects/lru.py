"""A cache that forgets what was used longest ago."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class LRU(Generic[_K, _V]):
    """Entries up to a total cost, in whatever unit the caller counts."""

    def __init__(self, max_cost: int) -> None:
        self._max_cost = max_cost
        self._cost = 0
        self._entries: OrderedDict[_K, tuple[_V, int]] = OrderedDict()

    def get(self, key: _K) -> _V | None:
        """The value, which is now the youngest."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: _K, value: _V, cost: int = 1) -> None:
        """Keep a value; one that alone is too costly is not kept."""
        self._remove(key)
        if cost > self._max_cost:
            return
        self._entries[key] = (value, cost)
        self._cost += cost
        while self._cost > self._max_cost:
            self._remove(next(iter(self._entries)))

    def forget(self, key: _K) -> None:
        """Let one go, where it is kept."""
        self._remove(key)

    def _remove(self, key: _K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._cost -= entry[1]
