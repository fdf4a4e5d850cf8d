"""A relay that gives every connection a bandwidth of its own, as S3 does; for tests, and by itself for benchmarks."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

_PIECE_BYTES: Final = 256 << 10
# Timers are late by about a millisecond; what a connection lost by that it may catch up.
_BURST_S: Final = 0.004
_BACKLOG: Final = 256


class ShapingRelay:
    """Passes connections on to target; each carries bytes_per_s in each direction.

    carried: connections so far, and most of them at once.
    """

    def __init__(self, target: tuple[str, int], bytes_per_s: float) -> None:
        self.connections = 0
        self.most_at_once = 0
        self._target = target
        self._bytes_per_s = bytes_per_s
        self._open: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Listen on a free port for the length of a block, which is given the endpoint."""
        with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listener:
            listener.setblocking(False)
            accepting = asyncio.create_task(self._accept(listener))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                tasks = [accepting, *self._open]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            task = asyncio.create_task(self._carry(client))
            self._open.add(task)
            task.add_done_callback(self._open.discard)
            self.connections += 1
            self.most_at_once = max(self.most_at_once, len(self._open))

    async def _carry(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with client, socket.socket() as server, contextlib.suppress(OSError):
            for one in (client, server):
                one.setblocking(False)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(server, self._target)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(client, server))
                both.create_task(self._pass(server, client))

    async def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        piece = memoryview(bytearray(_PIECE_BYTES))
        free_at = 0.0
        with contextlib.suppress(OSError):
            while size := await loop.sock_recv_into(source, piece):
                await loop.sock_sendall(sink, piece[:size])
                now = loop.time()
                free_at = max(free_at, now - _BURST_S) + size / self._bytes_per_s
                if free_at > now:
                    await asyncio.sleep(free_at - now)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


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
