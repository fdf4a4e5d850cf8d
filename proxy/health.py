"""The port that machines and people look at: /healthz, /readyz, /metrics, /status."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from s4weights.codec.engines import DeviceEngine
from s4weights.version import __version__

from .engine_metrics import engine_in_use
from .errors import ProxyError
from .metrics import Metrics
from .objects.objects import Objects

# A readiness probe asks the bucket at most this often.
_READY_FOR_S: Final = 5.0


class Health:
    """Alive from the start; ready once the bucket answered and the S3 port is open."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._started_s = time.monotonic()
        self._objects: Objects | None = None
        self._closed_because = "the S3 port is not open"
        self._checked: tuple[float, str] | None = None

    def explain(self, reason: str) -> None:
        """Why the S3 port is not open."""
        self._closed_because = reason

    def serve(self, objects: Objects) -> None:
        """The S3 port is open."""
        self._objects = objects

    def drain(self) -> None:
        """The S3 port is closing."""
        self._closed_because = "the S3 port is not open"
        self._objects = None

    def app(self) -> web.Application:
        """The application of the health port."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._render)
        app.router.add_get("/status", self._status)
        return app

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        fault = await self._fault()
        return web.Response(text=f"{fault or 'ready'}\n", status=503 if fault else 200)

    async def _fault(self) -> str:
        if self._objects is None:
            return self._closed_because
        now_s = time.monotonic()
        if self._checked is None or now_s - self._checked[0] > _READY_FOR_S:
            try:
                await self._objects.store.upstream.check()
                fault = ""
            except ProxyError as error:
                fault = str(error)
            self._checked = (now_s, fault)
        return self._checked[1]

    async def _render(self, _: web.Request) -> web.Response:
        if self._objects is not None:
            store = self._objects.store
            self._metrics.memory_used("writes", store.writes.used_bytes)
            self._metrics.memory_used("reads", store.reads.used_bytes)
            self._metrics.memory_used("parts", store.parts.used_bytes)
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _status(self, _: web.Request) -> web.Response:
        totals = self._metrics.totals
        status: dict[str, object] = {
            "version": __version__,
            "uptime_s": round(time.monotonic() - self._started_s, 1),
            "ready": not await self._fault(),
            "objects_written": totals.objects,
            "logical_bytes_written": totals.logical_bytes,
            "stored_bytes_written": totals.stored_bytes,
            "ratio": round(totals.logical_bytes / totals.stored_bytes, 4) if totals.stored_bytes else None,
            "frame_fallbacks": totals.fallbacks,
        }
        if self._objects is not None:
            store = self._objects.store
            engine = store.pool.engine
            status |= {
                "upstream": store.upstream.name,
                "engine": engine_in_use(engine),
                "engine_off": engine.counts.off if isinstance(engine, DeviceEngine) else "",
                "mode": store.settings.mode,
                "memory_bytes": store.settings.memory_bytes,
                "memory_used_bytes": sum(one.used_bytes for one in (store.writes, store.reads, store.parts)),
                "open_uploads": self._objects.uploads.open_count,
                "tasks": len(asyncio.all_tasks()),
            }
        return web.json_response(status)
