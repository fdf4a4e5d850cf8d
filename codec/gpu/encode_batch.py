"""A batch of frames on its way into payloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..engines.interface import EncodedPayload
from ..engines.payload import raw_payload
from ..errors import FormatError
from ..types import Buffer, Layout
from .batches import BatchSteps, Streams
from .frame_jobs import EncodeJob, aligned
from .health import DeviceFault
from .interface import CodedFrame, DeviceBase, DeviceFrame, StoredFrame
from .slots import Slot


@dataclass(frozen=True, slots=True)
class CheckedPayload(EncodedPayload):
    """A payload that the device has decoded again. checked: the frame that it then was."""

    checked: Buffer = b""


class EncodeBatch(BatchSteps):
    """See Batch."""

    jobs: Sequence[EncodeJob]

    def __init__(self, streams: Streams, slot: Slot, jobs: Sequence[EncodeJob]) -> None:
        super().__init__(streams, slot, jobs)
        self._frames: list[DeviceFrame] = []
        self._coded: Sequence[CodedFrame] = ()
        self._payload: torch.Tensor | None = None
        self._payloads: list[EncodedPayload] = []
        # Frames that were made again after they had been verified.
        self._changed: frozenset[int] = frozenset()

    def send(self) -> None:
        """See Batch."""
        residents = []
        for job in self.jobs:
            if job.resident is not None:
                residents.append((self.slot.used_bytes, job.resident))
            data = self.slot.place(job.data)
            bases = tuple(DeviceBase(base.kind, self.slot.place(base.data)) for base in job.bases)
            self._frames.append(DeviceFrame(data, job.element, job.grid, bases))
        self._send(residents)

    def compute(self) -> None:
        """See Batch."""
        with self._after_sent():
            total = self._begin_check()
            coded = self._codec.encode(self._frames, self.jobs[0].level)
            self._end_check(total)
            if len(coded.frames) != len(self.jobs):
                raise DeviceFault(f"batch: expected {len(self.jobs)} frames, found {len(coded.frames)}")
            self._coded = coded.frames
            # Held until its copy is done: its memory may then be given to others.
            self._payload = coded.payload
            self._verify(coded.payload)
            if (stage := self._streams.stage) is not None:
                coded, self._changed = stage.improve(self._frames, coded)
                self._coded, self._payload = coded.frames, coded.payload
            self._fetch(coded.payload)

    def finish(self) -> None:
        """See Batch."""
        fetched = self._wait_fetched()
        pairs = zip(self.jobs, self._coded, strict=True)
        self._payloads = [
            _payload(job, frame, fetched, is_checked=number not in self._changed)
            for number, (job, frame) in enumerate(pairs)
        ]

    def hand_out(self) -> None:
        """See Batch."""
        for job, payload in zip(self.jobs, self._payloads, strict=True):
            job.done.set_result(payload)

    def _verify(self, payload: torch.Tensor) -> None:
        """Decode everything again on the device. Raises: DeviceFault where it is not what it was."""
        stored, out, expected = [], [], []
        start = 0
        for frame, coded in zip(self._frames, self._coded, strict=True):
            if coded.layout is Layout.RAW and coded.base is None:
                continue
            length = frame.data.numel()
            room = self.slot.made[start : start + length]
            start += aligned(length)
            piece = payload[coded.offset : coded.offset + coded.stored_bytes]
            base = None if coded.base is None else frame.bases[coded.base].data
            planes = len(coded.modes)
            stored.append(StoredFrame(piece, coded.element, coded.predictor, coded.layout, planes, length, base))
            out.append(room)
            expected.append(frame.data)
        try:
            self._codec.decode(stored, out)
        except FormatError as error:
            raise DeviceFault(f"verification: a frame that was just encoded does not decode: {error}") from error
        wrong = [number for number, same in enumerate(self._codec.equal(out, expected)) if not same]
        if wrong:
            raise DeviceFault(f"verification: {len(wrong)} of {len(out)} frames decode to other bytes")


def _payload(job: EncodeJob, coded: CodedFrame, fetched: memoryview, *, is_checked: bool) -> EncodedPayload:
    if coded.layout is Layout.RAW and coded.base is None:
        return raw_payload(job.data, job.element)
    payload = bytes(fetched[coded.offset : coded.offset + coded.stored_bytes])
    if len(payload) != coded.stored_bytes:
        raise DeviceFault(f"payload: expected {coded.stored_bytes} bytes at {coded.offset}, found {len(payload)}")
    if not is_checked:
        return EncodedPayload(coded.element, coded.predictor, coded.layout, coded.modes, payload, coded.base)
    return CheckedPayload(coded.element, coded.predictor, coded.layout, coded.modes, payload, coded.base, job.data)
