"""The service: health first, then the entitlement, the bucket, and S3; the same backwards at the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from s4weights.codec.errors import ConfigError

from .auth.credentials import Credential, CredentialStore
from .auth.keyfile import KeyFile
from .auth.own import OwnCredentials
from .config import Settings, is_loopback, parse_address
from .dispatch import Dispatcher
from .entitlement.gate import require_entitlement
from .errors import EntitlementUnknown, NotEntitled
from .health import Health
from .http.server import S3Server
from .http.tls import ServerCertificate
from .limits import CLOSE_S, REFUSAL_SHOWN_S
from .metrics import Metrics
from .notify import Supervisor
from .objects.objects import Objects
from .state_folder import prepare
from .tracing import exporting, traced_upstream
from .upstream.open import open_upstream

_log = logging.getLogger(__name__)
_BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True)
class Running:
    """A service that answers. port, health_port: as bound, also where 0 was asked for."""

    settings: Settings
    host: str
    port: int
    health_port: int
    objects: Objects

    @property
    def endpoint(self) -> str:
        """What a client is pointed at."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "https" if self.settings.tls_cert else "http"
        return f"{scheme}://{host}:{self.port}"


@contextlib.asynccontextmanager
async def running(settings: Settings, stop: asyncio.Event | None = None) -> AsyncIterator[Running]:
    """Serve for the length of a block. stop: ends what the start waits for.

    Raises: ConfigError, UpstreamError, NotEntitled, EntitlementUnknown.
    """
    credentials, source = await _credentials(settings)
    host, port = parse_address("listen", settings.listen)
    if not credentials and not is_loopback(host):
        raise ConfigError(
            f"listen: expected a loopback address where clients need not sign, found {settings.listen!r}; "
            "set S4W_ACCESS_KEY and S4W_SECRET_KEY, or S4W_CREDENTIALS_FILE"
        )
    await asyncio.to_thread(prepare, settings.state_dir)
    certificate = ServerCertificate(Path(settings.tls_cert), Path(settings.tls_key)) if settings.tls_cert else None
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(exporting(settings.otlp_endpoint))
        if certificate is not None:
            reloading = asyncio.create_task(certificate.follow())
            stack.callback(reloading.cancel)
        if source is not None:
            following = asyncio.create_task(source.follow(credentials))
            stack.callback(following.cancel)
        metrics = Metrics()
        health = Health(metrics)
        health_runner = web.AppRunner(health.app(), access_log=None)
        health_port = await _listen(stack, health_runner, "health", *parse_address("health", settings.health))
        await _entitled(settings, health, stop or asyncio.Event())
        upstream = traced_upstream(open_upstream(settings))
        await upstream.start()
        stack.push_async_callback(upstream.close)
        # A device takes seconds to be proved, in which the health port answers.
        objects = await asyncio.to_thread(Objects, upstream, settings, metrics)
        await objects.start()
        stack.push_async_callback(_close, objects)
        dispatcher = Dispatcher(objects, credentials, metrics, domains=settings.domain)
        runner = web.ServerRunner(
            S3Server(dispatcher, header_timeout_s=settings.header_timeout_s), shutdown_timeout=settings.drain_s
        )
        bound = await _listen(stack, runner, "listen", host, port, certificate.context if certificate else None)
        stack.callback(health.drain)
        health.serve(objects)
        _log.info("S3 on %s:%s, upstream %s", host, bound, upstream.name)
        if not credentials:
            _log.warning(
                "nobody has to sign: whoever reaches %s:%s may read, write and delete; S4W_ACCESS_KEY and S4W_SECRET_KEY, or "
                "S4W_CREDENTIALS_FILE, make clients sign",
                host,
                bound,
            )
        yield Running(settings, host, bound, health_port, objects)


async def serve(settings: Settings, ready: asyncio.Future[Running], stop: asyncio.Event) -> None:
    """Serve until stop is set; ready gets the service once it answers."""
    supervisor = Supervisor.from_environment(os.environ)
    async with running(settings, stop) as service:
        ready.set_result(service)
        status = f"S3 on {service.endpoint}, upstream {settings.upstream}"
        # The loop runs where this runs at all. The bucket is left out: to start again does not bring it back.
        async with supervisor.serving(status, service.objects.store.pool.answer):
            await stop.wait()
        _log.info("stopping: requests under way have %s s", settings.drain_s)


async def _entitled(settings: Settings, health: Health, stop: asyncio.Event) -> None:
    """Come back where the product may run here; else the health port says for a while why not."""
    asking = asyncio.create_task(require_entitlement(settings, os.environ, health.explain))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((asking, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise EntitlementUnknown("stopped before it was known")
        await asking
    except (NotEntitled, EntitlementUnknown) as error:
        health.explain(f"not entitled: {error}")
        _log.error("the S3 port stays closed: %s: %s", type(error).__name__, error)
        await asyncio.wait((stopping,), timeout=REFUSAL_SHOWN_S)
        raise
    finally:
        asking.cancel()
        stopping.cancel()


async def _close(objects: Objects) -> None:
    """Abort what is open, within a bounded time also where the bucket does not answer."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await objects.close()
    except TimeoutError:
        _log.warning("uploads are not aborted after %s s: they stand in the journal, for the next start", CLOSE_S)


async def _listen(
    stack: contextlib.AsyncExitStack,
    runner: web.BaseRunner,
    setting: str,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
) -> int:
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        site = web.TCPSite(runner, host, port, backlog=_BACKLOG, ssl_context=tls)
        await site.start()
    except OSError as error:
        raise ConfigError(
            f"{setting}: cannot listen on {host}:{port}: {error.strerror}; choose another address with --{setting} or "
            f"S4W_{setting.upper()}"
        ) from error
    return int(runner.addresses[0][1])


async def _credentials(settings: Settings) -> tuple[CredentialStore, OwnCredentials | KeyFile | None]:
    """What clients may sign with, and where it is followed from unless it was set. Raises: ConfigError."""
    if settings.credentials_file:
        file = KeyFile(Path(settings.credentials_file))
        return CredentialStore(await asyncio.to_thread(file.load)), file
    if settings.access_key:
        return CredentialStore([Credential(settings.access_key, settings.secret_key)]), None
    own = await asyncio.to_thread(OwnCredentials)
    return CredentialStore(await asyncio.to_thread(own.load)), own
