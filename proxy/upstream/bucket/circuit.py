"""Whether the bucket answers at all: a count of faults in a row, for readiness and for how long a call is repeated."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)

# Faults in a row, of any calls, and over so long, after which the bucket counts as out of reach. The second because a short
# break meets every call that is under way.
FAULTS: Final = 10
SPAN_S: Final = 4.0
# After the last fault the circuit stays open so long; then a probe may close it, too.
COOL_S: Final = 10.0


class Circuit:
    """Open while calls fail, closed again by the first one that is answered.

    An open circuit holds nothing up: calls still go out, but once each, so that clients hear of it soon and a bucket that
    comes back is not buried under repetitions.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._faults = 0
        self._first_s = self._last_s = 0.0
        self._reason = ""

    @property
    def is_open(self) -> bool:
        """Whether the last calls all failed."""
        return self._faults >= FAULTS and self._last_s - self._first_s >= SPAN_S

    def fault(self) -> str:
        """Why the bucket counts as out of reach; empty where it does not, or where it is time for a probe."""
        if not self.is_open or self._clock() - self._last_s > COOL_S:
            return ""
        return f"the last {self._faults} calls to the bucket failed: {self._reason}"

    def failed(self, reason: str) -> None:
        """One try had no answer, or one that says that the bucket cannot answer now."""
        was_open = self.is_open
        self._faults += 1
        self._last_s = self._clock()
        self._first_s = self._first_s if self._faults > 1 else self._last_s
        self._reason = reason
        if self.is_open and not was_open:
            _log.error("the bucket is out of reach: %s", reason)

    def answered(self) -> None:
        """One try was answered, whatever the answer."""
        if self.is_open:
            _log.warning("the bucket answers again, after %d faults", self._faults)
        self._faults = 0
