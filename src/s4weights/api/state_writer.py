"""A state on its way into a body: as torch.save writes it, and straight from the device that holds it."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from s4weights.codec.engines import Engine
from s4weights.codec.gpu.device import Device
from s4weights.codec.gpu.downloads import Downloads
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.types import Buffer

from .record_holes import find_storages, save_with_holes
from .sinks import Sink, own_faults


class BodySink(Protocol):
    """Where a body goes, front to back."""

    def write(self, data: Buffer) -> int:
        """Take the next bytes; their memory may be used again then."""
        ...

    def hold(self, tensor: torch.Tensor) -> None:
        """The next bytes that are written lie in this tensor too (uint8, 1-D, contiguous), as many as it has."""
        ...

    def flush(self) -> None:
        """Nothing is kept back."""
        ...


@dataclass(frozen=True, slots=True)
class StateWriter:
    """One state. device: the one that holds some of it, and whose engine codes it; None: torch.save does everything."""

    state: object
    device: Device | None

    @classmethod
    def of(cls, state: object, engine: Engine) -> StateWriter:
        """Look where the state's storages lie."""
        device = engine.device if isinstance(engine, GpuEngine) and not engine.health.is_off else None
        storages = None if device is None else find_storages(state)
        is_there = device is not None and any(device.holds(_octets(one)) for one in storages or ())
        return cls(state, device if is_there else None)

    def write(self, sink: BodySink) -> None:
        """The bytes of torch.save, all of them, in order. Raises: what sink raises; what torch.save raises; S4WeightsError."""
        with own_faults(sink) as checked:
            if self.device is None:
                # Given a file object, torch.save writes each storage from where it lies, in one piece.
                torch.save(self.state, checked)  # type: ignore[arg-type]
            else:
                self._write_from(self.device, sink, checked)

    def _write_from(self, device: Device, sink: BodySink, checked: Sink) -> None:
        """checked: writes to sink."""
        downloads = Downloads(device)
        with ThreadPoolExecutor(1, thread_name_prefix="crc32") as checksums:

            def fill(storage: torch.UntypedStorage) -> int:
                octets = _octets(storage)
                if not device.holds(octets):
                    host: npt.NDArray[np.uint8] = octets.cpu().numpy()
                    checked.write(host.data)
                    return zlib.crc32(host.data)
                sink.hold(octets)
                crc = 0
                for _, data in downloads.chunks(octets):
                    checksum = checksums.submit(zlib.crc32, data, crc)
                    checked.write(data)
                    crc = checksum.result()
                return crc

            save_with_holes(self.state, checked, fill)


def _octets(storage: torch.UntypedStorage) -> torch.Tensor:
    """A storage's bytes, where it lies."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
