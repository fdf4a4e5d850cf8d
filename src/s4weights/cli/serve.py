"""s4weights serve."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from dataclasses import replace
from typing import Any, Final

from .extras import proxy_extra
from .settings import add_flags, given_flags

_EPILOG: Final = """\
examples:
  s4weights serve --upstream ./buckets
  s4weights serve --upstream s3://us-east-1 --listen 127.0.0.1:9000
  AWS_ENDPOINT_URL=http://127.0.0.1:9000 python train.py

Clients sign with S4W_ACCESS_KEY and S4W_SECRET_KEY, by default the AWS credentials of the proxy's own environment. Without
any, nobody needs to sign and it listens on loopback only. Every flag is also a setting: see `s4weights config`.
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "serve",
        help="the S3 endpoint",
        description="Serve S3: checkpoints are stored smaller in the upstream and come back identical.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_flags(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    with proxy_extra():
        import uvloop

        from s4weights.proxy.config import load_settings
        from s4weights.proxy.logs import set_up_logging
    settings = load_settings(given_flags(options)).settings
    settings = replace(settings, state_dir=settings.state_dir.expanduser())
    set_up_logging(settings.log_level, settings.log_format)
    uvloop.run(_serve(settings))
    return 0


async def _serve(settings: Any) -> None:
    from s4weights.proxy.app import Running, serve

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    ready: asyncio.Future[Running] = loop.create_future()
    service = asyncio.create_task(serve(settings, ready, stop))
    waiting: list[asyncio.Future[Any]] = [service, ready]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if ready.done():
        running = ready.result()
        sys.stdout.write(
            f"s4weights: {running.endpoint} in front of {settings.upstream}; health on port {running.health_port}\n"
        )
        sys.stdout.flush()
    await service
