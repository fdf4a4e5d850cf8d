"""Frames on their way to a device, and the queue in which threads leave them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import torch

from ..engines.interface import EncodedPayload
from ..types import Base, Buffer, ElementType, Grid, Layout, Level, Predictor
from .sums import WORD_BYTES

# Where a frame may begin in a buffer, so that a codec reads it where it lies.
ALIGN_BYTES: Final = 2 * WORD_BYTES


def aligned(size: int) -> int:
    """size, or the next multiple of ALIGN_BYTES."""
    return -(-size // ALIGN_BYTES) * ALIGN_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class EncodeJob:
    """A frame to be encoded. resident: the same bytes on the device. done: None where the device failed."""

    data: Buffer
    element: ElementType
    grid: Grid
    level: Level
    bases: tuple[Base, ...]
    resident: torch.Tensor | None = None
    done: Future[EncodedPayload | None] = field(default_factory=Future)

    @property
    def kind(self) -> Level:
        """Those of one kind may share a batch."""
        return self.level

    @property
    def logical_bytes(self) -> int:
        """Of the frame."""
        return len(self.data)

    @property
    def room_bytes(self) -> int:
        """What it takes of a slot, on the way up and on the way down."""
        return aligned(len(self.data)) + sum(aligned(len(base.data)) for base in self.bases)


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """A frame's bytes, empty where the device refused it. made: the same on the device, in memory of its own."""

    body: bytes
    made: torch.Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DecodeJob:
    """A frame to be decoded. out: where on the device as well. done: None where the device failed.

    Only the thread that waits for the job writes to out: a device that answers after it was given up would change what the
    processor has put there by then.
    """

    payload: Buffer
    element: ElementType
    predictor: Predictor
    layout: Layout
    planes: int
    logical_bytes: int
    base: Buffer | None = None
    out: torch.Tensor | None = None
    done: Future[Decoded | None] = field(default_factory=Future)

    @property
    def kind(self) -> None:
        """Any may share a batch."""
        return None

    @property
    def room_bytes(self) -> int:
        """See EncodeJob."""
        return max(aligned(len(self.payload)) + aligned(len(self.base or b"")), aligned(self.logical_bytes))


Job: TypeAlias = "EncodeJob | DecodeJob"


class JobQueue:
    """In order. Who adds waits while more than `most_bytes` wait already."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._jobs: deque[Job] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, job: Job) -> bool:
        """Add a job; False where the queue was closed."""
        with self._changed:
            while self._bytes >= self._most_bytes and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._jobs.append(job)
            self._bytes += job.room_bytes
            self._changed.notify_all()
            return True

    def take(self, room_bytes: int, patience_s: float, *, may_wait: bool) -> Sequence[Job]:
        """The next jobs of one kind that fit into room_bytes together; each does by itself.

        may_wait: for the first one without end; then for more of them, patience_s. False: what is there, if anything.
        Empty where the queue was closed, too.
        """
        with self._changed:
            if may_wait:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                self._changed.wait_for(lambda: self._bytes >= room_bytes or self._closed, timeout=patience_s)
            taken: list[Job] = []
            room = room_bytes
            while self._jobs and not self._closed:
                job = self._jobs[0]
                is_like = not taken or (type(job) is type(taken[0]) and job.kind is taken[0].kind)
                if not is_like or job.room_bytes > room:
                    break
                room -= job.room_bytes
                self._bytes -= job.room_bytes
                taken.append(self._jobs.popleft())
            if taken:
                self._changed.notify_all()
            return taken

    @property
    def waiting_bytes(self) -> int:
        """Of the jobs that wait."""
        return self._bytes

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> Sequence[Job]:
        """Nothing is added or taken any more. Returns what waits still."""
        with self._changed:
            self._closed = True
            left = list(self._jobs)
            self._jobs.clear()
            self._bytes = 0
            self._changed.notify_all()
            return left
