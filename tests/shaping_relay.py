"""A relay that gives every connection a bandwidth of its own, as S3 does; for tests, and by itself for benchmarks.

The kernel does the work: it moves the bytes from socket to socket through a pipe (splice), and paces what it sends, so that
the relay takes next to nothing of the processors that client and server share.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Final
from urllib.parse import urlsplit

_PIECE_BYTES: Final = 1 << 20
_BACKLOG: Final = 256
# Linux, include/uapi/asm-generic/socket.h: bytes a second, which TCP keeps to without a queue discipline.
_SO_MAX_PACING_RATE: Final = 47


class ShapingRelay:
    """Passes connections on to target; each carries bytes_per_s in each direction.

    connections: so far; most_at_once: of them.
    """

    def __init__(self, target: tuple[str, int], bytes_per_s: float) -> None:
        self.connections = 0
        self.most_at_once = 0
        self._target = target
        self._bytes_per_s = int(bytes_per_s)
        self._open: set[_Connection] = set()
        self._changing = threading.Lock()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Listen on a free port for the length of a block, which is given the endpoint."""
        with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listener:
            listener.setblocking(False)
            accepting = asyncio.create_task(self._accept(listener))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                accepting.cancel()
                await asyncio.gather(accepting, return_exceptions=True)
                with self._changing:
                    left = list(self._open)
                for connection in left:
                    connection.cut()
                for connection in left:
                    await asyncio.to_thread(connection.join)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            connection = _Connection(client, self._target, self._bytes_per_s, self._ended)
            with self._changing:
                self._open.add(connection)
                self.connections += 1
                self.most_at_once = max(self.most_at_once, len(self._open))
            connection.start()

    def _ended(self, connection: _Connection) -> None:
        with self._changing:
            self._open.discard(connection)


class _Connection(threading.Thread):
    """Both directions of one connection, each in a thread of its own, which sleeps in the kernel."""

    def __init__(
        self,
        client: socket.socket,
        target: tuple[str, int],
        bytes_per_s: int,
        ended: Callable[[_Connection], None],
    ) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._server = socket.socket()
        self._target = target
        self._bytes_per_s = bytes_per_s
        self._ended = ended

    def run(self) -> None:
        with self._client, self._server, contextlib.suppress(OSError):
            for one in (self._client, self._server):
                one.setblocking(True)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                one.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, self._bytes_per_s)
            self._server.connect(self._target)
            back = threading.Thread(target=_carry, args=(self._server, self._client), daemon=True)
            back.start()
            _carry(self._client, self._server)
            back.join()
        self._ended(self)

    def cut(self) -> None:
        """End both directions now."""
        for one in (self._client, self._server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _carry(source: socket.socket, sink: socket.socket) -> None:
    reading, writing = os.pipe()
    try:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIECE_BYTES)
        with contextlib.suppress(OSError):
            while size := os.splice(source.fileno(), writing, _PIECE_BYTES):
                while size:
                    size -= os.splice(reading, sink.fileno(), size)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
    finally:
        os.close(reading)
        os.close(writing)


async def _serve(endpoint: str, bytes_per_s: float) -> None:
    url = urlsplit(endpoint)
    async with ShapingRelay((url.hostname or "", url.port or 80), bytes_per_s).listening() as listening:
        sys.stdout.write(f"{listening}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint", help="what connections are passed on to, as http://127.0.0.1:PORT")
    parser.add_argument("bytes_per_s", type=float)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.endpoint, options.bytes_per_s))
