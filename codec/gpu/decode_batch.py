"""A batch of payloads on its way back into frames."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..errors import FormatError
from .batches import BatchSteps, Streams
from .frame_jobs import Decoded, DecodeJob, aligned
from .interface import StoredFrame
from .slots import Slot


class DecodeBatch(BatchSteps):
    """See Batch. What a job wants on the device is handed out in memory of its own."""

    jobs: Sequence[DecodeJob]

    def __init__(self, streams: Streams, slot: Slot, jobs: Sequence[DecodeJob]) -> None:
        super().__init__(streams, slot, jobs)
        self._stored: list[StoredFrame] = []
        self._rooms: list[torch.Tensor] = []
        self._refused: set[int] = set()
        self._made: list[torch.Tensor | None] = []
        self._decoded: list[Decoded] = []

    def send(self) -> None:
        """See Batch."""
        start = 0
        for job in self.jobs:
            payload = self.slot.place(job.payload)
            base = None if job.base is None else self.slot.place(job.base)
            self._stored.append(
                StoredFrame(payload, job.element, job.predictor, job.layout, job.planes, job.logical_bytes, base)
            )
            self._rooms.append(self.slot.made[start : start + job.logical_bytes])
            start += aligned(job.logical_bytes)
        self._send()

    def compute(self) -> None:
        """See Batch."""
        with self._after_sent():
            total = self._begin_check()
            self._decode()
            self._end_check(total)
            self._made = [
                None if job.out is None else room.clone() for job, room in zip(self.jobs, self._rooms, strict=True)
            ]
            last = self._rooms[-1]
            self._fetch(self.slot.made[: last.storage_offset() - self.slot.made.storage_offset() + last.numel()])

    def finish(self) -> None:
        """See Batch. A frame that the device refuses is for the processor to judge."""
        fetched = self._wait_fetched()
        start = 0
        for number, (job, made) in enumerate(zip(self.jobs, self._made, strict=True)):
            body = b"" if number in self._refused else bytes(fetched[start : start + job.logical_bytes])
            self._decoded.append(Decoded(body, made))
            start += aligned(job.logical_bytes)

    def hand_out(self) -> None:
        """See Batch."""
        for job, decoded in zip(self.jobs, self._decoded, strict=True):
            job.done.set_result(decoded)

    def _decode(self) -> None:
        try:
            self._codec.decode(self._stored, self._rooms)
        except FormatError:
            # One that is damaged must not take the others with it.
            for number, (stored, room) in enumerate(zip(self._stored, self._rooms, strict=True)):
                try:
                    self._codec.decode([stored], [room])
                except FormatError:
                    self._refused.add(number)
