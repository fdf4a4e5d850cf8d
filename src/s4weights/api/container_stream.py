"""A body written piece by piece, as torch.save does it, into a container."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from s4weights.codec.container import REPLACEABLE, LogicalETag
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import choose_engine
from s4weights.codec.types import Buffer, EncodedFrame, Frame, Level

_CHUNK_BYTES: Final = 1 << 20


class ContainerStream:
    """A file object for a body; its container goes to `send` in order. Only `finish` makes it whole.

    What is written is copied a mebibyte at a time, so its memory may be used again when `write` returns.
    """

    def __init__(self, send: Callable[[Buffer], object], level: Level, threads: int = 0) -> None:
        """threads: 0: one a processor."""
        threads = threads or os.cpu_count() or 1
        self._send = send
        self._level = level
        self._engine = choose_engine()
        self._encoder = Encoder()
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="save")
        self._ahead: deque[Future[EncodedFrame]] = deque()
        self._most_ahead = 2 * threads
        send(self._encoder.start())

    def write(self, data: Buffer) -> int:
        """Take the next bytes; waits while enough frames are ahead."""
        view = memoryview(data).cast("B")
        for at in range(0, len(view), _CHUNK_BYTES):
            chunk = bytes(view[at : at + _CHUNK_BYTES])
            self._md5.update(chunk)
            self._submit(self._encoder.plan(chunk))
        return len(view)

    def flush(self) -> None:
        """Nothing: what is on its way arrives with `finish`."""

    def finish(self) -> None:
        """Send the rest, the index and the trailer."""
        self._submit(self._encoder.plan_end())
        while self._ahead:
            self._take()
        # Nothing here asks who needs an object before it is replaced, so no proxy may take it for a base.
        self._send(self._encoder.finish(etag=LogicalETag(self._md5.digest()), more={REPLACEABLE: True}))

    def close(self) -> None:
        """End the threads; harmless after `finish`."""
        self._pool.shutdown(cancel_futures=True)

    def _submit(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._ahead.append(self._pool.submit(encode_frame, frame, self._engine, self._level))
            while len(self._ahead) > self._most_ahead:
                self._take()

    def _take(self) -> None:
        for piece in self._encoder.add(self._ahead.popleft().result()):
            self._send(piece)
