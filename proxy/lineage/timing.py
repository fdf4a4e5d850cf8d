"""Every delay of the delta store. What is younger may belong to somebody at work; clocks are those of the bucket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Delays:
    """grace: a pin, tombstone or hidden base that is younger is left alone by a sweep.

    A removal holds its tombstone for a few calls. A write holds its pins for as long as its upload lasts, which must be shorter
    than `write`, after which it does not become visible: well under `grace`, so that clocks may differ by hours.
    """

    grace: timedelta = timedelta(days=7)
    write: timedelta = timedelta(days=6)


DELAYS = Delays()
