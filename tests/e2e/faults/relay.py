"""A relay between the proxy and a real S3 server that breaks what a script says: real sockets, real servers."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from .script import Fault, Kind, Script

_PIECE = 64 << 10
_TRICKLE_S = 0.2


class _Broken(Exception):
    """This connection is over."""


@dataclass(frozen=True, slots=True)
class _Head:
    """The head of a request or of an answer, as on the wire."""

    raw: bytes
    first: tuple[str, str, str]

    def value(self, name: str) -> str | None:
        match = re.search(rf"^{name}:\s*(.*?)\s*$", self.raw.decode("latin-1"), re.I | re.M)
        return match[1] if match else None

    @property
    def length(self) -> int:
        return int(self.value("content-length") or 0)


class Relay:
    """Listens on a free port, in a thread of its own, for the length of a block."""

    def __init__(self, endpoint: str, script: Script | None = None) -> None:
        """endpoint: the server's, as http://HOST:PORT."""
        url = urlsplit(endpoint)
        self._server = (url.hostname or "", url.port or 80)
        self.script = script or Script()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._port = 0
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", self._port))
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(_Connection(self.script, self._server, reader, writer).serve())
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)


class _Connection:
    """One connection of the proxy's, and its own one to the server."""

    def __init__(
        self,
        script: Script,
        server: tuple[str, int],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._script = script
        self._server = server
        self._client = reader, writer
        self._upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def serve(self) -> None:
        try:
            while await self._exchange():
                pass
        except (_Broken, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            for pair in (self._client, self._upstream):
                if pair is not None:
                    pair[1].transport.abort()

    async def _exchange(self) -> bool:
        """One request and its answer. Returns whether another one may follow."""
        request = await _read_head(self._client[0])
        if request is None:
            return False
        method, target, _ = request.first
        fault = self._script.fault_for(method, target, request.raw.decode("latin-1"))
        kind = fault.kind if fault else None
        if fault is not None and kind is Kind.REFUSED:
            return await self._refuse(request, fault)
        if kind is Kind.RESET_BEFORE:
            _reset(self._client[1])
        if kind is Kind.STALL:
            await self._stand_still()
        if self._upstream is None:
            self._upstream = await asyncio.open_connection(*self._server, limit=1 << 20)
        self._upstream[1].write(request.raw)
        sending = asyncio.create_task(self._send_body(request, kind))
        try:
            answer = await self._read_answer(sending)
            if fault is not None and kind in (Kind.LOST_ANSWER, Kind.REFUSED_AFTER):
                await self._swallow(method, answer)
                if kind is Kind.REFUSED_AFTER:
                    await sending
                    await self._answer(fault)
                    return True
                _reset(self._client[1])
            await self._pass_answer(method, answer, fault)
            await sending
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        return "close" not in (answer.value("connection") or "").lower()

    async def _read_answer(self, sending: asyncio.Task[None]) -> _Head:
        """The answer's head; interim ones are passed on."""
        assert self._upstream is not None
        reading = asyncio.create_task(_read_head(self._upstream[0]))
        try:
            while True:
                await asyncio.wait({reading, sending}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
                answer = await reading
                if answer is None:
                    raise _Broken
                if answer.first[1] != "100":
                    return answer
                self._client[1].write(answer.raw)
                reading = asyncio.create_task(_read_head(self._upstream[0]))
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _send_body(self, request: _Head, kind: Kind | None) -> None:
        assert self._upstream is not None
        half = request.length // 2
        change = _flip_at(half) if kind is Kind.CORRUPT_REQUEST else None
        async for piece, end in _pieces(self._client[0], request.length):
            if kind in (Kind.RESET_IN_REQUEST, Kind.STALL_IN_REQUEST) and end >= half:
                if kind is Kind.RESET_IN_REQUEST:
                    _reset(self._client[1])
                await self._stand_still()
            self._upstream[1].write(change(piece, end) if change else piece)
            await self._upstream[1].drain()

    async def _pass_answer(self, method: str, answer: _Head, fault: Fault | None) -> None:
        kind = fault.kind if fault else None
        raw = answer.raw
        if kind is Kind.WRONG_ETAG:
            raw = re.sub(rb'(?im)^(etag:\s*"?)[0-9a-f]{4}', rb"\g<1>dead", raw)
        writer = self._client[1]
        writer.write(raw)
        half = answer.length // 2
        change = _flip_at(half) if kind is Kind.CORRUPT_ANSWER else None
        async for piece, end in self._answer_pieces(method, answer):
            if kind in (Kind.TRUNCATED, Kind.STALL_IN_ANSWER) and end >= half:
                writer.write(piece[: max(0, len(piece) - (end - half))])
                await writer.drain()
                if kind is Kind.TRUNCATED:
                    writer.close()
                    raise _Broken
                await self._stand_still()
            if kind is Kind.TRICKLE:
                for at in range(len(piece)):
                    writer.write(piece[at : at + 1])
                    await writer.drain()
                    await asyncio.sleep(_TRICKLE_S)
                continue
            writer.write(change(piece, end) if change else piece)
            await writer.drain()
            if fault is not None and kind is Kind.SLOW:
                await asyncio.sleep(len(piece) / fault.bytes_s)
        await writer.drain()

    def _answer_pieces(self, method: str, answer: _Head) -> AsyncIterator[tuple[bytes, int]]:
        assert self._upstream is not None
        if method == "HEAD" or answer.first[1] in ("204", "304"):
            return _pieces(self._upstream[0], 0)
        if (answer.value("transfer-encoding") or "").lower() == "chunked":
            return _chunked(self._upstream[0])
        return _pieces(self._upstream[0], answer.length)

    async def _swallow(self, method: str, answer: _Head) -> None:
        async for _ in self._answer_pieces(method, answer):
            pass

    async def _refuse(self, request: _Head, fault: Fault) -> bool:
        expects = (request.value("expect") or "").lower() == "100-continue"
        if not expects:
            async for _ in _pieces(self._client[0], request.length):
                pass
        await self._answer(fault)
        return not expects

    async def _answer(self, fault: Fault) -> None:
        document = f"<Error><Code>{fault.code}</Code><Message>by the relay</Message></Error>".encode()
        after = f"Retry-After: {fault.retry_after_s}\r\n" if fault.retry_after_s is not None else ""
        head = f"HTTP/1.1 {fault.status} Fault\r\nContent-Type: application/xml\r\n{after}"
        self._client[1].write(f"{head}Content-Length: {len(document)}\r\n\r\n".encode() + document)
        await self._client[1].drain()

    async def _stand_still(self) -> None:
        """Until the proxy hangs up. Its bytes are not read: a socket that waits for room stays so."""
        connection: socket.socket = self._client[1].get_extra_info("socket")
        self._client[1].transport.pause_reading()  # type: ignore[attr-defined]
        while True:
            await asyncio.sleep(0.1)
            if connection.fileno() < 0 or _is_gone(connection):
                raise _Broken


def _is_gone(connection: socket.socket) -> bool:
    """Whether the peer has closed, also behind bytes that nobody reads (TCP_INFO's first byte is the state)."""
    established = 1
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != established


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    raise _Broken


def _flip_at(at: int) -> Callable[[bytes, int], bytes]:
    """Changes the byte at an offset. Called with a piece and the offset of its end."""

    def change(piece: bytes, end: int) -> bytes:
        index = at - (end - len(piece))
        if not 0 <= index < len(piece):
            return piece
        return piece[:index] + bytes([piece[index] ^ 1]) + piece[index + 1 :]

    return change


async def _read_head(reader: asyncio.StreamReader) -> _Head | None:
    with contextlib.suppress(asyncio.IncompleteReadError):
        raw = await reader.readuntil(b"\r\n\r\n")
        first, second, third = raw.partition(b"\r\n")[0].decode("latin-1").split(" ", 2)
        return _Head(raw, (first, second, third))
    return None


async def _pieces(reader: asyncio.StreamReader, length: int) -> AsyncIterator[tuple[bytes, int]]:
    """A body of a known length, with the offset of each piece's end."""
    end = 0
    while end < length:
        piece = await reader.read(min(_PIECE, length - end))
        if not piece:
            raise _Broken
        end += len(piece)
        yield piece, end


async def _chunked(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, int]]:
    """A chunked body with its framing."""
    end = 0
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        piece = line + await reader.readexactly(size + 2)
        end += len(piece)
        yield piece, end
        if not size:
            return
