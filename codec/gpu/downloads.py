"""Bytes from a device to the host, a chunk at a time: the next one is on its way while one is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from ..errors import S4WeightsError
from .device import Device, Event
from .sums import DeviceSums, sum_host

CHUNK_BYTES: Final = 8 << 20
_TRIES: Final = 3


class Downloads:
    """For one thread. Its pinned memory is two chunks, however large tensors are."""

    def __init__(self, device: Device, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._device = device
        self._chunk_bytes = chunk_bytes
        self._stream = device.stream()
        self._sums = DeviceSums()
        self._rooms = [device.pinned(chunk_bytes) for _ in range(2)]

    def chunks(self, tensor: torch.Tensor) -> Iterator[tuple[torch.Tensor, memoryview]]:
        """Slices of a tensor, in order, each with its bytes in the host's memory, which the next one but one is written over.

        tensor: uint8, 1-D, contiguous, from the start of its storage. Raises: S4WeightsError where bytes do not arrive whole.
        """
        # What the training has begun writes the tensor first.
        self._stream.after(self._device.arrived())
        pieces = [tensor[at : at + self._chunk_bytes] for at in range(0, tensor.numel(), self._chunk_bytes)]
        ahead: Event | None = None
        for number, piece in enumerate(pieces):
            event = ahead or self._begin(number, piece)
            ahead = self._begin(number + 1, pieces[number + 1]) if number + 1 < len(pieces) else None
            self._arrive(event, number, piece)
            octets: npt.NDArray[np.uint8] = self._rooms[number % 2][: piece.numel()].numpy()
            yield piece, octets.data

    def _begin(self, number: int, piece: torch.Tensor) -> Event:
        self._stream.copy(self._rooms[number % 2][: piece.numel()], piece)
        return self._stream.record()

    def _arrive(self, event: Event, number: int, piece: torch.Tensor) -> None:
        room = self._rooms[number % 2][: piece.numel()]
        with self._stream.current():
            expected = DeviceSums.end(self._sums.begin(piece))
        for _ in range(_TRIES):
            event.wait()
            found = sum_host(room)
            if found == expected:
                return
            event = self._begin(number, piece)
        event.wait()
        raise S4WeightsError(
            f"{self._device.name}: expected {piece.numel()} bytes with the sum {expected:016x}, found {found:016x}: "
            "the tensor changes while it is saved, or its copy fails"
        )
