"""A batch's steps: placed and sent up; coded and verified on the device; fetched and compared; handed out.

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

from .device import Device, Event, Stream
from .frame_jobs import Job
from .health import DeviceFault
from .plane_stage import PlaneStage
from .slots import Slot
from .sums import DeviceSums, sum_host


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


class BatchSteps:
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
