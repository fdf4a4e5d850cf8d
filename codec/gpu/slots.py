"""The ring: memory for a batch on both sides, allocated once, and used again when the batch is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from ..limits import GPU_BATCH_BYTES, GPU_MEMORY_BYTES, GPU_SLOTS
from ..types import Buffer
from .device import Device, Event
from .frame_jobs import aligned
from .health import DeviceFault
from .sums import sum_host

# Of a batch, beside its slot: what a codec has of its own while it works (planes, payloads, tables).
_CODEC_BATCHES: Final = 4


@dataclass(frozen=True, slots=True)
class RingSize:
    """slots: batches under way at once. batch_bytes: of one, each way. One frame must fit."""

    slots: int = GPU_SLOTS
    batch_bytes: int = GPU_BATCH_BYTES

    @classmethod
    def within(cls, memory_bytes: int = GPU_MEMORY_BYTES) -> RingSize:
        """The largest batches that need no more than so much of the device's memory; 4 to 64 MiB."""
        share = memory_bytes // (2 * GPU_SLOTS + _CODEC_BATCHES)
        return cls(GPU_SLOTS, aligned(min(max(share, 4 << 20), 64 << 20)))

    @property
    def device_bytes(self) -> int:
        """Of the device's memory, with what its codec takes."""
        return (2 * self.slots + _CODEC_BATCHES) * self.batch_bytes


class Slot:
    """up: pinned, on its way to the device. down: pinned, from there. given, made: on the device."""

    def __init__(self, device: Device, batch_bytes: int) -> None:
        self.up = device.pinned(batch_bytes)
        self.down = device.pinned(batch_bytes)
        self.given = device.empty(batch_bytes)
        self.made = device.empty(batch_bytes)
        self.used_bytes = 0
        # Behind the last copies: until they are done nothing here may be touched.
        self.busy: list[Event] = []

    def place(self, data: Buffer) -> torch.Tensor:
        """Put bytes behind those that are there already. Returns where on the device they will be."""
        start, length = self.used_bytes, len(data)
        self.up.numpy()[start : start + length] = np.frombuffer(data, dtype=np.uint8)
        end = aligned(start + length)
        # What fills up is summed, and must be the same on both sides.
        self.up.numpy()[start + length : end] = 0
        self.used_bytes = end
        return self.given[start : start + length]

    def sum_up(self) -> int:
        """Of all that was placed."""
        return sum_host(self.up[: self.used_bytes])

    def settle(self) -> None:
        """Wait until nothing reads or writes this memory any more. Raises: what the device raises."""
        busy, self.busy = self.busy, []
        for event in busy:
            event.wait()

    def clear(self) -> None:
        """For the next batch."""
        self.used_bytes = 0


def make_slots(device: Device, size: RingSize) -> Sequence[Slot]:
    """Raises: DeviceFault where the device has too little memory; what it raises itself."""
    free = device.free_bytes()
    if free < size.device_bytes:
        raise DeviceFault(f"{device.name}: expected {size.device_bytes} bytes of free memory, found {free}")
    return [Slot(device, size.batch_bytes) for _ in range(size.slots)]
