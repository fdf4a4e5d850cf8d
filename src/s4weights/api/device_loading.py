"""torch.load to a device, from a container: only stored bytes go up, and are decoded there. Frames stored raw, frames that
lie in several storages and what the processor decodes go up decoded.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import torch

from s4weights.bodies import ContainerBody
from s4weights.codec.container import FrameSpan
from s4weights.codec.errors import FormatError
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.gpu.tensor_engine import TensorEngine

from .storage_map import Placed, map_storages


@dataclass(frozen=True, slots=True)
class _Target:
    """A storage of the body. tensor: on the device, as long."""

    placed: Placed
    tensor: torch.Tensor

    @property
    def end(self) -> int:
        return self.placed.start + self.placed.length


def load_to_device(raw: io.RawIOBase, body: ContainerBody, engine: GpuEngine) -> tuple[bool, Any]:
    """(whether it was loaded, the state), with weights only. raw: the body as a file, without a buffer: what is read ahead
    would be decoded twice.

    Not loaded is what has to be read while it is unpickled (sparse and quantized tensors), or is no archive of torch.save.
    Every frame is verified by its hash in the host's memory: what the device decoded comes down for it.
    Raises: FormatError, MissingBase, OSError; what torch.load raises.
    """
    # Whoever else reads raw finds it where it was.
    at = raw.tell()
    places = map_storages(cast(BinaryIO, raw))
    if places is None:
        raw.seek(at)
        return False, None
    targets: list[_Target] = []

    def restore(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage:
        if not storage.nbytes():
            return engine.device.empty(0).untyped_storage()
        placed = places[len(targets)] if len(targets) < len(places) else None
        if placed is None or storage.nbytes() not in _nbytes_of(placed.length):
            raise FormatError(f"{body.path}: expected storage {placed}, found one of {storage.nbytes()} bytes")
        targets.append(_Target(placed, engine.device.empty(placed.length)))
        return targets[-1].tensor.untyped_storage()

    raw.seek(0)
    with torch.serialization.skip_data():
        state = torch.load(cast(BinaryIO, raw), map_location=cast(Any, restore), weights_only=True)
    if len(targets) != len(places):
        raise FormatError(f"{body.path}: expected {len(places)} storages, found {len(targets)}")
    # What the memory was used for before is over once this is.
    engine.device.arrived().wait()
    _fill(sorted(targets, key=lambda one: one.placed.start), body, engine)
    return True, state


def _nbytes_of(length: int) -> set[int]:
    """What torch may say of a storage that it skips: up to 2.10 its bytes times an element's, which is never touched."""
    return {length * itemsize for itemsize in (1, 2, 4, 8, 16)}


def _fill(targets: Sequence[_Target], body: ContainerBody, engine: GpuEngine) -> None:
    """targets: in the order of their places."""
    starts = [one.placed.start for one in targets]
    spans: dict[int, FrameSpan] = {}
    for target in targets:
        spans.update((span.number, span) for span in body.spans(target.placed.start, target.placed.length))

    def fill(span: FrameSpan) -> None:
        fill_from(span)
        # In this thread's stream, which is not the caller's where the caller has chosen one.
        engine.device.arrived().wait()

    def fill_from(span: FrameSpan) -> None:
        number = max(0, bisect_right(starts, span.start) - 1)
        first = targets[number]
        if first.placed.start <= span.start and span.end <= first.end:
            piece = first.tensor[span.start - first.placed.start : span.end - first.placed.start]
            used = TensorEngine(engine, piece)
            data = body.decode(span, used)
            if not used.is_filled:
                piece.copy_(_tensor(data))
            return
        data = body.decode(span, engine)
        while number < len(targets) and starts[number] < span.end:
            target = targets[number]
            start, end = max(span.start, target.placed.start), min(span.end, target.end)
            if start < end:
                piece = target.tensor[start - target.placed.start : end - target.placed.start]
                piece.copy_(_tensor(data[start - span.start : end - span.start]))
            number += 1

    threads = max(os.cpu_count() or 1, engine.frames_at_once)
    with ThreadPoolExecutor(threads, thread_name_prefix="load") as pool:
        done = [pool.submit(fill, span) for span in spans.values()]
        wait(done)
    for one in done:
        one.result()


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
