"""From torch.save, which writes in one thread, to the proxy's objects, which read in a loop."""

from __future__ import annotations

import asyncio
import hashlib
import queue
from collections.abc import AsyncIterator, Mapping
from threading import Event
from typing import Final

import torch

from s4weights.codec.errors import S4WeightsError
from s4weights.codec.types import Buffer

_CHUNK_BYTES: Final = 1 << 20
_CHUNKS_AHEAD: Final = 8
_LOOK_S: Final = 0.2


class BodyPipe:
    """A file object to write to, and a VerifiedBody (proxy/objects/store.py) to read."""

    def __init__(self) -> None:
        self.gathered_bytes = _CHUNK_BYTES
        self.md5 = b""
        self.checksums: Mapping[str, str] = {}
        self.announced: Mapping[str, str | None] = {}
        self._hash = hashlib.md5(usedforsecurity=False)
        self._chunks: queue.Queue[bytes | BaseException | None] = queue.Queue(_CHUNKS_AHEAD)
        self._pending = bytearray()
        self._stopped = Event()

    def write(self, data: Buffer) -> int:
        """Raises: S4WeightsError where nobody reads any more."""
        view = memoryview(data).cast("B")
        for at in range(0, len(view), _CHUNK_BYTES):
            self._pending += view[at : at + _CHUNK_BYTES]
            if len(self._pending) >= _CHUNK_BYTES:
                self._send()
        return len(view)

    def hold(self, tensor: torch.Tensor) -> None:
        """See BodySink. The bytes are all that is passed on: frames are cut behind the pipe."""

    def flush(self) -> None:
        """Nothing: `end` sends the rest."""

    def end(self) -> None:
        """The body is whole."""
        self._send()
        self.md5 = self._hash.digest()
        self._put(None)

    def fail(self, error: BaseException) -> None:
        """The body will never be whole: the reader ends with this error."""
        if not self._stopped.is_set():
            self._put(error)

    def stop(self) -> None:
        """The reader has gone: the writer ends with an error."""
        self._stopped.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await asyncio.to_thread(self._chunks.get)) is not None:
            if isinstance(chunk, BaseException):
                raise S4WeightsError("the state could not be saved") from chunk
            yield chunk

    def _send(self) -> None:
        chunk, self._pending = bytes(self._pending), bytearray()
        if chunk:
            self._hash.update(chunk)
            self._put(chunk)

    def _put(self, item: bytes | BaseException | None) -> None:
        while not self._stopped.is_set():
            try:
                self._chunks.put(item, timeout=_LOOK_S)
                return
            except queue.Full:
                continue
        raise S4WeightsError("the bucket takes no more of the checkpoint")


class _Counter:
    def __init__(self) -> None:
        self.at = self.end = 0

    def write(self, data: Buffer) -> int:
        length = memoryview(data).nbytes
        self.seek(length, 1)
        return length

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (self.at if whence else 0)
        self.end = max(self.end, self.at)
        return self.at

    def flush(self) -> None:
        """Nothing is kept."""


def saved_bytes(state: object) -> int:
    """Length of what torch.save writes, without reading a tensor."""
    counter = _Counter()
    try:
        with torch.serialization.skip_data():
            torch.save(state, counter)  # type: ignore[arg-type]
    except RuntimeError:
        # A state with something that torch cannot skip, such as a quantized tensor: it is written, to nowhere.
        counter = _Counter()
        torch.save(state, counter)  # type: ignore[arg-type]
    return counter.end
