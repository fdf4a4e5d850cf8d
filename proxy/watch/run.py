"""The loop: look, tell CloudWatch, and give the machine up where it must be."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from s4weights.proxy.errors import PlatformSilent
from s4weights.proxy.instance_metadata import InstanceMetadata

from .embedded_metrics import log_event, metrics_between
from .fleet import Verdict
from .sample import Sample, take_sample

_log = logging.getLogger(__name__)
_FAULTS = (BotoCoreError, ClientError, aiohttp.ClientError, OSError)


@dataclass(frozen=True, slots=True)
class Watched:
    """health: http://HOST:PORT of the proxy. stack: the metrics' dimension. endpoint: of the AWS services, empty for AWS's.

    replace_after_s: Auto Scaling is told after so long without a sign of life; 0: never. looks: as many, 0 for ever.
    """

    health: str
    state_dir: Path
    log_group: str
    stack: str
    region: str
    every_s: float = 60.0
    replace_after_s: float = 0.0
    endpoint: str = ""
    looks: int = 0


async def watch(watched: Watched) -> None:
    """Look for ever. What AWS does not take is logged, and what was counted goes with the next look."""
    instance = await _instance()
    verdict = Verdict(watched.replace_after_s)
    before: Sample | None = None
    async with _client("logs", watched) as logs, _client("autoscaling", watched) as fleet:
        done = 0
        while True:
            sample = await take_sample(watched.health, watched.state_dir)
            if await _tell(logs, watched, instance, metrics_between(before, sample), sample.why):
                before = sample
            if verdict.is_lost(sample, time.monotonic()):
                await _give_up(fleet, instance, sample.why)
            done += 1
            if done == watched.looks:
                return
            await asyncio.sleep(watched.every_s)


async def _instance() -> str:
    try:
        async with InstanceMetadata.open() as metadata:
            return (await metadata.get("meta-data/instance-id")).strip()
    except PlatformSilent as error:
        _log.warning("the machine does not know its name: %s", error)
        return "unknown"


@contextlib.asynccontextmanager
async def _client(service: str, watched: Watched) -> AsyncIterator[Any]:
    # The machine's users point AWS_ENDPOINT_URL at the proxy.
    config = AioConfig(
        ignore_configured_endpoint_urls=True,
        connect_timeout=5,
        read_timeout=10,
        retries={"mode": "standard", "total_max_attempts": 3},
    )
    endpoint = watched.endpoint or None
    async with get_session().create_client(
        service, region_name=watched.region, endpoint_url=endpoint, config=config
    ) as client:
        yield client


async def _tell(logs: Any, watched: Watched, instance: str, values: dict[str, float], why: str) -> bool:
    at_ms = time.time_ns() // 1_000_000
    event = log_event(values, stack=watched.stack, instance=instance, why=why, at_ms=at_ms)
    where = {"logGroupName": watched.log_group, "logStreamName": instance}
    try:
        with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
            await logs.create_log_stream(**where)
        await logs.put_log_events(**where, logEvents=[{"timestamp": at_ms, "message": event}])
    except _FAULTS as error:
        _log.warning("CloudWatch was not told: %s", error)
        return False
    return True


async def _give_up(fleet: Any, instance: str, why: str) -> None:
    _log.error("the proxy does not come back (%s): this machine is to be replaced", why)
    try:
        await fleet.set_instance_health(InstanceId=instance, HealthStatus="Unhealthy", ShouldRespectGracePeriod=True)
    except _FAULTS as error:
        _log.warning("Auto Scaling was not told: %s", error)
