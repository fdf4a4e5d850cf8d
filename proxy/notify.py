"""What systemd is told: ready, alive, stopping. Nothing where it does not ask. Source: sd_notify(3), sd_watchdog_enabled(3)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Supervisor:
    """address: of the datagram socket, empty where nobody listens. watchdog_s: silence that ends us, 0 for none."""

    address: str = ""
    watchdog_s: float = 0.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Supervisor:
        """The one that started this process; variables meant for another process are left alone."""
        watchdog_us = environment.get("WATCHDOG_USEC", "")
        is_ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        asked = watchdog_us.isdecimal() and is_ours
        return cls(environment.get("NOTIFY_SOCKET", ""), int(watchdog_us) / 1e6 if asked else 0.0)

    def tell(self, *states: str) -> None:
        """Send assignments such as READY=1. A supervisor that cannot be told is logged, never an error."""
        if not self.address:
            return
        # A leading @ is how systemd writes the NUL of an abstract name.
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as wire:
                wire.setblocking(False)
                wire.sendto("\n".join(states).encode(), address)
        except OSError as error:
            _log.warning("the supervisor at %s cannot be told %s: %s", self.address, states[0], error.strerror)

    @contextlib.asynccontextmanager
    async def serving(self, status: str, check: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Ready for the length of a block, and alive while check() comes back in time; stopping at its end."""
        self.tell("READY=1", f"STATUS={status}")
        beating = asyncio.create_task(self._beat(check)) if self.watchdog_s else None
        try:
            yield
        finally:
            self.tell("STOPPING=1", "STATUS=stopping")
            if beating is not None:
                beating.cancel()

    async def _beat(self, check: Callable[[], Awaitable[None]]) -> None:
        # Twice a check may come late before the supervisor acts.
        period_s = self.watchdog_s / 3
        while True:
            try:
                async with asyncio.timeout(period_s):
                    await check()
                self.tell("WATCHDOG=1")
            except TimeoutError:
                _log.error("watchdog: the codec has not answered for %.1f s", period_s)
            except Exception:
                _log.exception("watchdog: the codec cannot answer")
            await asyncio.sleep(period_s)
