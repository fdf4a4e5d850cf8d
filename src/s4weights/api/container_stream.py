"""A body written piece by piece, as torch.save does it, into a container."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import torch

from s4weights.codec.container import REPLACEABLE, LogicalETag
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import DeviceEngine, Engine
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.gpu.tensor_engine import TensorEngine
from s4weights.codec.types import Buffer, EncodedFrame, Frame, Level

_CHUNK_BYTES: Final = 1 << 20


class ContainerStream:
    """A file object for a body; its container goes to `send` in order. Only `finish` makes it whole.

    What is written is copied a mebibyte at a time, so its memory may be used again when `write` returns.
    """

    def __init__(
        self, send: Callable[[Buffer], object], level: Level, engine: Engine, threads: int = 0, *, has_etag: bool = True
    ) -> None:
        """threads: 0: one a processor. has_etag: whether the container has the body's MD5, which takes longer than all else."""
        threads = threads or os.cpu_count() or 1
        most_ahead = 2 * threads
        if isinstance(engine, DeviceEngine):
            # Each waits for its frame; the work is the device's.
            threads = most_ahead = max(threads, engine.frames_at_once)
        self._send = send
        self._level = level
        self._engine = engine
        self._encoder = Encoder()
        self._md5 = hashlib.md5(usedforsecurity=False) if has_etag else None
        self._at = 0
        # Where they begin in the body, in order; those behind which no frame has been cut yet.
        self._held: deque[tuple[int, torch.Tensor]] = deque()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="save")
        self._ahead: deque[Future[EncodedFrame]] = deque()
        self._most_ahead = most_ahead
        send(self._encoder.start())

    def write(self, data: Buffer) -> int:
        """Take the next bytes; waits while enough frames are ahead."""
        view = memoryview(data).cast("B")
        for at in range(0, len(view), _CHUNK_BYTES):
            chunk = bytes(view[at : at + _CHUNK_BYTES])
            if self._md5 is not None:
                self._md5.update(chunk)
            self._at += len(chunk)
            self._submit(self._encoder.plan(chunk))
        return len(view)

    def hold(self, tensor: torch.Tensor) -> None:
        """See BodySink. It must stay as it is until `finish`."""
        self._held.append((self._at, tensor))

    def flush(self) -> None:
        """Nothing: what is on its way arrives with `finish`."""

    def finish(self) -> None:
        """Send the rest, the index and the trailer."""
        self._submit(self._encoder.plan_end())
        while self._ahead:
            self._take()
        # Nothing here asks who needs an object before it is replaced, so no proxy may take it for a base.
        etag = None if self._md5 is None else LogicalETag(self._md5.digest())
        self._send(self._encoder.finish(etag=etag, more={REPLACEABLE: True}))

    def close(self) -> None:
        """End the threads; harmless after `finish`."""
        self._pool.shutdown(cancel_futures=True)

    def _submit(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._ahead.append(self._pool.submit(encode_frame, frame, self._engine_of(frame), self._level))
            while len(self._ahead) > self._most_ahead:
                self._take()

    def _engine_of(self, frame: Frame) -> Engine:
        """frame: the next one. Where it lies in one tensor on the device, it is encoded from there."""
        while self._held and self._held[0][0] + self._held[0][1].numel() <= frame.start:
            self._held.popleft()
        if self._held and isinstance(self._engine, GpuEngine):
            start, tensor = self._held[0]
            if start <= frame.start and frame.end <= start + tensor.numel():
                return TensorEngine(self._engine, tensor[frame.start - start : frame.end - start])
        return self._engine

    def _take(self) -> None:
        for piece in self._encoder.add(self._ahead.popleft().result()):
            self._send(piece)
