"""How often a device failed, and when it has failed once too often."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Final

from ..engines.interface import DeviceCounts

_log = logging.getLogger(__name__)

# One may be memory that somebody else took for a moment; three in a row are a device that is not to be trusted.
_FAULTS_IN_A_ROW: Final = 3
# Frames that a device took for right and that were not; since the start, for between them it seems to succeed.
_MOST_WRONG: Final = 3


class DeviceFault(Exception):
    """What a device gave back is not what it was to give back; the batch is coded natively."""


class Health:
    """Of one device. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._counts = DeviceCounts()
        self._in_a_row = 0
        self._wrong = 0
        self.last_fault = ""

    @property
    def counts(self) -> DeviceCounts:
        """As they are now."""
        return self._counts

    @property
    def is_off(self) -> bool:
        """Whether nothing is given to the device any more."""
        return bool(self._counts.off)

    def succeeded(self, frames: int, logical_bytes: int) -> None:
        """A batch came back, and was right."""
        with self._lock:
            self._in_a_row = 0
            now = self._counts
            self._counts = replace(
                now,
                batches=now.batches + 1,
                frames=now.frames + frames,
                logical_bytes=now.logical_bytes + logical_bytes,
            )

    def failed(self, error: BaseException, frames: int) -> None:
        """A batch did not; its frames are coded natively."""
        what = f"{type(error).__name__}: {error}"
        with self._lock:
            self.last_fault = what
            self._in_a_row += 1
            now = self._counts
            self._counts = replace(now, faults=now.faults + 1, fallbacks=now.fallbacks + frames)
            is_last = self._in_a_row >= _FAULTS_IN_A_ROW and not now.off
        _log.warning("%s failed, %d frames are coded by the processor: %s", self._name, frames, what)
        if is_last:
            self.switch_off(f"{_FAULTS_IN_A_ROW} faults in a row, the last one {what}")

    def was_wrong(self) -> None:
        """A frame was decoded to other bytes than were written, or refused, and the processor found it right."""
        with self._lock:
            self._wrong += 1
            now = self._counts
            self._counts = replace(now, faults=now.faults + 1, fallbacks=now.fallbacks + 1)
            is_last = self._wrong >= _MOST_WRONG
        _log.warning("%s decoded a frame to other bytes than were written; the processor decoded it again", self._name)
        if is_last:
            self.switch_off(f"{_MOST_WRONG} frames were decoded to other bytes than were written")

    def close(self) -> None:
        """Nothing more is given to the device, since nothing more comes."""
        with self._lock:
            if not self._counts.off:
                self._counts = replace(self._counts, off="closed")

    def switch_off(self, why: str) -> None:
        """Give nothing more to the device, until the process starts again."""
        with self._lock:
            if self._counts.off:
                return
            self._counts = replace(self._counts, off=why)
        _log.error("%s is switched off, the processor goes on alone: %s", self._name, why)
