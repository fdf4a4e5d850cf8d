"""The body of a container as a seekable file object: what torch.load reads from."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from s4weights.bodies import BaseFiles, ContainerBody, Stored
from s4weights.codec.container import FrameSpan
from s4weights.codec.engines import DeviceEngine, Engine

# As much as a frame: small reads in a row decode each one once.
_BUFFER_BYTES: Final = 1 << 20


@contextmanager
def open_body(
    stored: Stored, where: Path, engine: Engine, bases: BaseFiles, threads: int = 0
) -> Iterator[tuple[io.BufferedReader[Any], ContainerBody]]:
    """The body of a container, as a file and by its frames. where: what messages call it; bases are looked for beside it.

    Raises: FormatError, MissingBase, OSError, also in place of what a reader in C++ made of them.
    """
    body = ContainerBody(where, stored, engine, bases)
    threads = threads or os.cpu_count() or 1
    if isinstance(engine, DeviceEngine):
        threads = max(threads, engine.frames_at_once)
    raw = _ContainerFile(body, threads)
    try:
        with io.BufferedReader(raw, _BUFFER_BYTES) as file:
            yield file, body
    except Exception as error:
        if raw.fault is not None and raw.fault is not error:
            raise raw.fault from error
        raise


def open_plain(stored: Stored) -> io.BufferedReader[Any]:
    """Stored bytes that are the body."""
    return io.BufferedReader(_PlainFile(stored), _BUFFER_BYTES)


class RandomFile(io.RawIOBase):
    """Seekable, over a body of `size` bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        length = max(0, min(len(target), self._size - self._at))
        self._fill(target[:length])
        self._at += length
        return length

    def _fill(self, target: memoryview) -> None:
        raise NotImplementedError


class _ContainerFile(RandomFile):
    def __init__(self, body: ContainerBody, threads: int) -> None:
        super().__init__(body.about.size)
        self._body = body
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="load")
        self.fault: Exception | None = None

    def close(self) -> None:
        if not self.closed:
            self._pool.shutdown()
        super().close()

    def _fill(self, target: memoryview) -> None:
        try:
            self._decode(target)
        except Exception as error:
            self.fault = error
            raise

    def _decode(self, target: memoryview) -> None:
        first, end = self._at, self._at + len(target)

        def decode(span: FrameSpan) -> None:
            start, stop = max(first, span.start), min(end, span.end)
            target[start - first : stop - first] = self._body.read(start, stop - start)

        spans = self._body.spans(first, len(target))
        if len(spans) == 1:
            decode(spans[0])
            return
        # The memory is the caller's: nothing may still write to it when an error leaves here.
        done = [self._pool.submit(decode, span) for span in spans]
        wait(done)
        for one in done:
            one.result()


class _PlainFile(RandomFile):
    def __init__(self, stored: Stored) -> None:
        super().__init__(stored.size)
        self._stored = stored

    def _fill(self, target: memoryview) -> None:
        step = 8 << 20
        for at in range(0, len(target), step):
            length = min(step, len(target) - at)
            target[at : at + length] = self._stored.read(self._at + at, length)
