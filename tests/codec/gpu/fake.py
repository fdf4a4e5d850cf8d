"""A device that is none: tensors of the processor, streams that work late, each at its own pace, and faults on demand.

A copy reads its source when it is done, not when it is begun, so that memory that was used again too early shows.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from s4weights.codec.engines import NativeEngine
from s4weights.codec.gpu.interface import CodedBatch, CodedFrame, DeviceFrame, StoredFrame
from s4weights.codec.types import Base, Layout, Level, Reference

NATIVE = NativeEngine(huffman=False)


@dataclass
class Faults:
    """By number of the codec's call or of the copy, from 0; what there goes wrong."""

    encode: dict[int, Callable[[], None]] = field(default_factory=dict)
    decode: dict[int, Callable[[], None]] = field(default_factory=dict)
    wrong_payload: set[int] = field(default_factory=set)
    blind: bool = False  # `equal` says yes to everything
    wrong_decode: set[int] = field(default_factory=set)
    torn_up: set[int] = field(default_factory=set)
    torn_down: set[int] = field(default_factory=set)
    most_bytes: int = 1 << 40


class FakeEvent:
    def __init__(self) -> None:
        self._done = threading.Event()

    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> None:
        assert self._done.wait(30)

    def set(self) -> None:
        self._done.set()


class FakeStream:
    def __init__(self, device: FakeDevice, pace: random.Random) -> None:
        self._device = device
        self._pace = pace
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._work.get()()

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        assert target.shape == source.shape

        def work() -> None:
            time.sleep(self._pace.random() * self._device.delay_s)
            torn = self._device.torn(target, source)
            target.copy_(source)
            if torn:
                target[target.numel() // 2] ^= 1

        self._work.put(work)

    def record(self) -> FakeEvent:
        event = FakeEvent()
        self._work.put(event.set)
        return event

    def after(self, event: FakeEvent) -> None:
        self._work.put(event.wait)

    @contextmanager
    def current(self) -> Iterator[None]:
        # The processor's work is done at once, so all before it has to be done first.
        self.record().wait()
        yield


class FakeDevice:
    name = "fake:0"

    def __init__(self, faults: Faults | None = None, *, delay_s: float = 0.002, seed: int = 0) -> None:
        self.faults = faults or Faults()
        self.delay_s = delay_s
        self.codec = FakeCodec(self)
        self.place = torch.device("cpu")
        self.given_bytes = 0
        self.pinned_bytes = 0
        self.resident: set[int] = set()
        self.ups = self.downs = 0
        self.up_bytes = 0
        self._pinned: set[int] = set()
        self._random = random.Random(seed)

    def holds(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self.resident

    def is_at(self, place: torch.device) -> bool:
        return place == self.place

    def adopt(self, *tensors: torch.Tensor) -> None:
        """These lie on the device from now on."""
        self.resident.update(tensor.untyped_storage().data_ptr() for tensor in tensors)

    def pinned(self, size: int) -> torch.Tensor:
        self.pinned_bytes += size
        made = torch.full((size,), 0xA5, dtype=torch.uint8)
        self._pinned.add(made.untyped_storage().data_ptr())
        return made

    def empty(self, size: int) -> torch.Tensor:
        self.given_bytes += size
        if self.given_bytes > self.faults.most_bytes:
            raise torch.OutOfMemoryError(f"fake: {self.given_bytes} bytes")
        return torch.full((size,), 0x5A, dtype=torch.uint8)

    def free_bytes(self) -> int:
        return self.faults.most_bytes - self.given_bytes

    def stream(self) -> FakeStream:
        return FakeStream(self, random.Random(self._random.random()))

    def arrived(self) -> FakeEvent:
        event = FakeEvent()
        event.set()
        return event

    def torn(self, target: torch.Tensor, source: torch.Tensor) -> bool:
        """Whether this copy is to go wrong; counts it."""
        is_pinned = [one.untyped_storage().data_ptr() in self._pinned for one in (target, source)]
        if is_pinned[1]:
            self.ups += 1
            self.up_bytes += source.numel()
            return self.ups - 1 in self.faults.torn_up
        if is_pinned[0]:
            self.downs += 1
            return self.downs - 1 in self.faults.torn_down
        return False


class FakeCodec:
    """The native engine on tensors."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self.encoded: list[int] = []  # frames of each call
        self.decoded: list[int] = []
        self.levels: list[Level] = []

    def encode(self, frames: Sequence[DeviceFrame], level: Level) -> CodedBatch:
        number = len(self.encoded)
        self.encoded.append(len(frames))
        self.levels.append(level)
        faults = self._device.faults
        if number in faults.encode:
            faults.encode[number]()
        coded, payloads, offset = [], [], 0
        for frame in frames:
            bases = [Base(Reference(1, 0), base.kind, bytes(base.data.numpy())) for base in frame.bases]
            data = bytes(frame.data.numpy())
            found = NATIVE.encode(data, frame.element, grid=frame.grid, level=level, bases=bases)
            payload = b"" if found.layout is Layout.RAW else bytes(found.payload)
            coded.append(
                CodedFrame(found.element, found.predictor, found.layout, found.modes, found.base, offset, len(payload))
            )
            payloads.append(payload)
            offset += len(payload)
        joined = bytearray(b"".join(payloads))
        if number in faults.wrong_payload:
            joined[len(joined) // 2] ^= 64
        tensor = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.empty(0, dtype=torch.uint8)
        return CodedBatch(tuple(coded), tensor)

    def decode(self, frames: Sequence[StoredFrame], out: Sequence[torch.Tensor]) -> None:
        number = len(self.decoded)
        self.decoded.append(len(frames))
        faults = self._device.faults
        if number in faults.decode:
            faults.decode[number]()
        for frame, room in zip(frames, out, strict=True):
            base = None if frame.base is None else bytes(frame.base.numpy())
            body = NATIVE.decode(
                bytes(frame.payload.numpy()),
                frame.element,
                frame.predictor,
                frame.layout,
                frame.planes,
                frame.logical_bytes,
                base,
            )
            room.copy_(torch.frombuffer(bytearray(body), dtype=torch.uint8))
        if number in faults.wrong_decode:
            out[0][0] ^= 1

    def equal(self, left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> list[bool]:
        return [self._device.faults.blind or torch.equal(a, b) for a, b in zip(left, right, strict=True)]


def raising(error: BaseException) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault
