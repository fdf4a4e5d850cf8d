"""When a machine should be replaced: where its proxy was alive once and has been dead for long."""

from __future__ import annotations

from .sample import Sample


class Verdict:
    """Follows one machine.

    A bucket that is out of reach, a setting, an entitlement: the next machine would have the same, so nothing but a proxy
    that served and does not come back counts. after_s: how long it may be gone; 0: for ever.
    """

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._was_ready = False
        self._gone_since_s: float | None = None

    def is_lost(self, sample: Sample, now_s: float) -> bool:
        """Whether the machine is lost by this look, the newest of all. now_s: on a monotonic clock."""
        self._was_ready |= sample.ready
        if sample.alive:
            self._gone_since_s = None
            return False
        if self._gone_since_s is None:
            self._gone_since_s = now_s
        return self._was_ready and 0 < self._after_s <= now_s - self._gone_since_s
