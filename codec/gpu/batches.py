"""A batch's three steps: placed and sent up; coded and verified on the device; fetched, compared and handed out.

Nothing is handed out that was not decoded on the device to just what was sent up, and whose copies in both directions do not
have the sums of what they were copied from.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from ..engines.interface import EncodedPayload
from ..engines.payload import raw_payload
from ..errors import FormatError
from ..types import Buffer, Layout
from .device import Device, Event, Stream
from .frame_jobs import DecodeJob, EncodeJob, Job, aligned
from .health import DeviceFault
from .interface import CodedFrame, DeviceBase, DeviceFrame, StoredFrame
from .plane_stage import PlaneStage
from .slots import Slot
from .sums import DeviceSums, sum_host


@dataclass(frozen=True, slots=True)
class CheckedPayload(EncodedPayload):
    """A payload that the device has decoded again. checked: the frame that it then was."""

    checked: Buffer = b""


@dataclass(slots=True)
class Streams:
    """Of one device, and the sums that are made in them. stage: what is tried on planes after the device's own codec."""

    device: Device
    up: Stream
    compute: Stream
    down: Stream
    sums: DeviceSums = field(default_factory=DeviceSums)
    stage: PlaneStage | None = None


class Batch(Protocol):
    """Jobs of one kind, in a slot of their own until they are done."""

    @property
    def slot(self) -> Slot:
        """Its own."""
        ...

    @property
    def jobs(self) -> Sequence[Job]:
        """In order."""
        ...

    def send(self) -> None:
        """Place what the device needs, and begin to copy it there."""
        ...

    def compute(self) -> None:
        """Wait for it, code and verify it on the device, begin to copy the outcome back. Raises: DeviceFault, and others."""
        ...

    def is_back(self) -> bool:
        """Whether `finish` need not wait."""
        ...

    def finish(self) -> None:
        """Wait for the outcome, and take it out of the slot. Raises: as compute."""
        ...

    def hand_out(self) -> None:
        """Give each job its outcome, after `finish`."""
        ...

    def abandon(self) -> None:
        """After a fault in any step. Raises: what the device raises."""
        ...


class _Steps:
    def __init__(self, streams: Streams, slot: Slot, jobs: Sequence[Job]) -> None:
        self.slot = slot
        self.jobs = jobs
        self._streams = streams
        self._codec = streams.device.codec
        self._sent_sum = 0
        self._sent: Event | None = None
        self._fetched_sum = 0
        self._fetched_bytes = 0
        self._fetched: Event | None = None

    def abandon(self) -> None:
        """After a fault: the slot is busy until nothing that was begun reads or writes it, nor the jobs' own tensors."""
        self.slot.busy.append(self._streams.compute.record())

    def is_back(self) -> bool:
        return self._fetched is None or self._fetched.is_done()

    def _send(self, residents: Sequence[tuple[int, torch.Tensor]] = ()) -> None:
        """residents: what lies on the device already, by its place: copied there, and summed as what comes from the host is."""
        slot, up, at = self.slot, self._streams.up, 0
        self._sent_sum = slot.sum_up()
        for start, tensor in residents:
            self._copy_up(at, start)
            at = start + tensor.numel()
            up.copy(slot.given[start:at], tensor)
        self._copy_up(at, slot.used_bytes)
        self._sent = up.record()
        slot.busy.append(self._sent)

    def _copy_up(self, start: int, end: int) -> None:
        if start < end:
            self._streams.up.copy(self.slot.given[start:end], self.slot.up[start:end])

    def _after_sent(self) -> AbstractContextManager[object]:
        assert self._sent is not None
        self._streams.compute.after(self._sent)
        return self._streams.compute.current()

    def _begin_check(self) -> torch.Tensor:
        """Within the compute stream: what came up is summed beside the rest of the work."""
        return self._streams.sums.begin(self.slot.given[: self.slot.used_bytes])

    def _end_check(self, total: torch.Tensor) -> None:
        if (found := DeviceSums.end(total)) != self._sent_sum:
            raise DeviceFault(f"copy to the device: expected the sum {self._sent_sum:016x}, found {found:016x}")

    def _fetch(self, made: torch.Tensor) -> None:
        """Within the compute stream: begin to copy just these bytes back."""
        self._fetched_bytes = made.numel()
        if not self._fetched_bytes:
            return
        self._fetched_sum = DeviceSums.end(self._streams.sums.begin(made))
        self._streams.down.after(self._streams.compute.record())
        self._streams.down.copy(self.slot.down[: self._fetched_bytes], made)
        self._fetched = self._streams.down.record()
        self.slot.busy.append(self._fetched)

    def _wait_fetched(self) -> memoryview:
        if self._fetched is None:
            return memoryview(b"")
        self._fetched.wait()
        down = self.slot.down[: self._fetched_bytes]
        if (found := sum_host(down)) != self._fetched_sum:
            raise DeviceFault(f"copy from the device: expected the sum {self._fetched_sum:016x}, found {found:016x}")
        octets: npt.NDArray[np.uint8] = down.numpy()
        return octets.data


class EncodeBatch(_Steps):
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


class DecodeBatch(_Steps):
    """See Batch. What a job wants on the device is there before it is handed out."""

    jobs: Sequence[DecodeJob]

    def __init__(self, streams: Streams, slot: Slot, jobs: Sequence[DecodeJob]) -> None:
        super().__init__(streams, slot, jobs)
        self._stored: list[StoredFrame] = []
        self._rooms: list[torch.Tensor] = []
        self._refused: set[int] = set()
        self._bodies: list[bytes] = []

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
            for job, room in zip(self.jobs, self._rooms, strict=True):
                if job.out is not None:
                    job.out.copy_(room)
            last = self._rooms[-1]
            self._fetch(self.slot.made[: last.storage_offset() - self.slot.made.storage_offset() + last.numel()])

    def finish(self) -> None:
        """See Batch. A frame that the device refuses is for the processor to judge."""
        fetched = self._wait_fetched()
        start = 0
        for number, job in enumerate(self.jobs):
            self._bodies.append(b"" if number in self._refused else bytes(fetched[start : start + job.logical_bytes]))
            start += aligned(job.logical_bytes)

    def hand_out(self) -> None:
        """See Batch."""
        for job, body in zip(self.jobs, self._bodies, strict=True):
            job.done.set_result(body)

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
