"""What the commands on a bucket share: which one, and the same view of it that the proxy has."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from s4weights.codec.errors import ConfigError
from s4weights.proxy.limits import MIN_CONTAINER_BYTES

from .extras import proxy_extra

if TYPE_CHECKING:
    from s4weights.proxy.config import Settings
    from s4weights.proxy.objects.objects import Objects
    from s4weights.proxy.upstream.protocol import Entry

Work: TypeAlias = "Callable[[Objects, str, str], Awaitable[int]]"
"""(objects, bucket, key or prefix) -> exit code."""


def add_arguments(parser: argparse.ArgumentParser, target: str) -> None:
    """target: how the place is called: BUCKET, BUCKET/KEY, ..."""
    parser.add_argument("target", metavar=target, help="s3:// in front is allowed")
    parser.add_argument(
        "--upstream", metavar="WHERE", help="a directory, s3://REGION or a URL, as for serve (S4W_UPSTREAM)"
    )
    parser.add_argument("--json", action="store_true", help="one object a line")


def run_on_bucket(options: argparse.Namespace, work: Work, **changes: object) -> int:
    """changes: to the settings. Raises: ConfigError."""
    bucket, _, key = str(options.target).removeprefix("s3://").partition("/")
    with proxy_extra():
        from s4weights.proxy.config import load_settings
    try:
        if not bucket:
            raise ConfigError(f"expected BUCKET or BUCKET/KEY, found {options.target!r}")
        settings = load_settings({"upstream": options.upstream}).settings
    except ConfigError:
        if not Path(options.target).is_file():
            raise
        raise ConfigError(
            f"{options.target}: expected BUCKET or BUCKET/KEY, found a file: `s4weights inspect` shows a container, and "
            "`s4weights unpack` checks every hash of it"
        ) from None

    async def run() -> int:
        async with opened(dataclasses.replace(settings, **changes)) as objects:  # type: ignore[arg-type]
            return await work(objects, bucket, key)

    return asyncio.run(run())


async def objects_below(
    objects: Objects, bucket: str, prefix: str, *, at_least_bytes: int = MIN_CONTAINER_BYTES
) -> AsyncIterator[Entry]:
    """Every object there of at least so many bytes.

    Raises: FileNotFoundError at the end, where a prefix leads to none of any size: most often a slip.
    """
    is_empty = True
    async for entry in objects.collector.objects(bucket, prefix):
        is_empty = False
        if entry.size >= at_least_bytes:
            yield entry
    if prefix and is_empty:
        raise FileNotFoundError(f"{bucket}/{prefix}: expected objects, found nothing there")


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Objects]:
    """The objects of an upstream, with a state directory of their own and nothing at work in the background."""
    with proxy_extra():
        from s4weights.proxy.metrics import Metrics
        from s4weights.proxy.objects.objects import Objects
        from s4weights.proxy.upstream.open import open_upstream
    upstream = open_upstream(settings)
    await upstream.start()
    try:
        with tempfile.TemporaryDirectory(prefix="s4weights-") as state:
            alone = dataclasses.replace(settings, state_dir=Path(state), rebase=False, cache_bytes=0)
            objects = Objects(upstream, alone, Metrics())
            await objects.start()
            try:
                yield objects
            finally:
                await objects.close()
    finally:
        await upstream.close()
