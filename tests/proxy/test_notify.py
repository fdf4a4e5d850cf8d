"""systemd is told when the service is ready, alive and stopping, and only what it asked for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket

import pytest

from s4weights.proxy.notify import Supervisor


async def nothing() -> None:
    pass


class Listener:
    """A notification socket. name: of its file, or @ and an abstract name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._wire = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._wire.bind(f"\0{name[1:]}" if name[0] == "@" else name)
        self._wire.setblocking(False)

    async def next(self, within_s: float = 10.0) -> list[str]:
        async with asyncio.timeout(within_s):
            return (await asyncio.get_running_loop().sock_recv(self._wire, 4096)).decode().split("\n")

    def pending(self) -> list[str]:
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self._wire.recv(4096).decode())
        return found

    def close(self) -> None:
        self._wire.close()


@pytest.fixture(params=["file", "abstract"])
def listener(request, tmp_path):
    one = Listener(str(tmp_path / "notify") if request.param == "file" else f"@s4weights-{os.getpid()}")
    yield one
    one.close()


@pytest.mark.parametrize(
    ("variables", "watchdog_s"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "3000000"}, 3),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_the_watchdog_is_that_of_this_process(variables, watchdog_s):
    assert Supervisor.from_environment(variables).watchdog_s == watchdog_s


async def test_ready_alive_stopping(listener):
    supervisor = Supervisor.from_environment({"NOTIFY_SOCKET": listener.name, "WATCHDOG_USEC": "60000"})
    async with supervisor.serving("S3 on http://127.0.0.1:9000", nothing):
        assert await listener.next() == ["READY=1", "STATUS=S3 on http://127.0.0.1:9000"]
        assert await listener.next() == ["WATCHDOG=1"]
        assert await listener.next() == ["WATCHDOG=1"]
    told = listener.pending()
    assert told[-1] == "STOPPING=1\nSTATUS=stopping"
    await asyncio.sleep(0.1)
    assert listener.pending() == []


async def test_silent_where_no_watchdog_was_asked_for(listener):
    async with Supervisor(listener.name).serving("up", nothing):
        await asyncio.sleep(0.1)
    assert listener.pending() == ["READY=1\nSTATUS=up", "STOPPING=1\nSTATUS=stopping"]


async def test_no_sign_of_life_while_the_check_hangs_and_again_once_it_answers(listener, caplog):
    answering = asyncio.Event()

    async def answers() -> None:
        await answering.wait()

    async with Supervisor(listener.name, watchdog_s=0.06).serving("up", answers):
        await listener.next()
        await asyncio.sleep(0.15)
        assert listener.pending() == []
        assert "watchdog: the codec has not answered" in caplog.text
        answering.set()
        assert await listener.next() == ["WATCHDOG=1"]


async def test_no_sign_of_life_while_the_check_fails(listener, caplog):
    async def check() -> None:
        raise RuntimeError("cannot schedule new futures after shutdown")

    async with Supervisor(listener.name, watchdog_s=0.03).serving("up", check):
        await listener.next()
        await asyncio.sleep(0.1)
        assert listener.pending() == []
    assert "cannot schedule new futures" in caplog.text


async def test_a_socket_that_is_gone_is_logged_and_nothing_else(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        async with Supervisor(str(tmp_path / "gone")).serving("up", nothing):
            pass
    assert "cannot be told READY=1" in caplog.text


async def test_nothing_is_said_where_nobody_listens(caplog):
    with caplog.at_level(logging.DEBUG):
        async with Supervisor().serving("up", nothing):
            pass
    assert caplog.text == ""
