"""One look at the health port."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from s4weights.proxy.limits import LOOK_BYTES, LOOK_S

_DEVICE_OFF: Final = "s4weights_device_off"
_REQUESTS: Final = "s4weights_request_seconds_count"
# CloudWatch's names for sums over all labels of counters.
_COUNTERS: Final = {
    "s4weights_logical_bytes_written_total": "LogicalBytes",
    "s4weights_stored_bytes_written_total": "StoredBytes",
    "s4weights_frame_fallbacks_total": "FramesFailed",
    "s4weights_device_faults_total": "DeviceFaults",
    "s4weights_spilled_bytes_total": "SpilledBytes",
}
COUNTED: Final = (*_COUNTERS.values(), "Requests", "ServerErrors")


@dataclass(frozen=True, slots=True)
class Sample:
    """alive: something answers. ready: it serves S3, and its bucket answers. why: where it is not ready.

    uptime_s: of the process, -1 where none answers. counters: since its start, by COUNTED. levels: what is so now.
    """

    alive: bool = False
    ready: bool = False
    why: str = "nothing answers"
    uptime_s: float = -1.0
    counters: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)


async def take_sample(health: str, state_dir: Path) -> Sample:
    """health: the address of the health port. state_dir: whose disk may fill. Never raises for what a proxy does."""
    levels = {"DiskUsed": _disk_used(state_dir)} if state_dir.is_dir() else {}  # noqa: ASYNC240 - one call on a local disk
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LOOK_S), trust_env=False) as session:
            alive, _ = await _page(session, f"{health}/healthz")
            if alive != 200:
                return Sample(levels=levels, why=f"/healthz: expected 200, found {alive}")
            ready, why = await _page(session, f"{health}/readyz")
            _, status_text = await _page(session, f"{health}/status")
            _, metrics = await _page(session, f"{health}/metrics")
        status = json.loads(status_text)
        if status.get("memory_bytes"):
            levels["MemoryUsed"] = 100.0 * status["memory_used_bytes"] / status["memory_bytes"]
        counters, levels["DeviceOff"] = _counters(metrics)
        return Sample(True, ready == 200, why.strip(), float(status["uptime_s"]), counters, levels)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
        return Sample(levels=levels, why=f"{health}: {error or type(error).__name__}")


async def _page(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url) as answer:
        body = await answer.content.read(LOOK_BYTES)
        while piece := await answer.content.read(LOOK_BYTES):
            if len(body := body + piece) > LOOK_BYTES:
                raise ValueError(f"{url}: expected at most {LOOK_BYTES} bytes, found more")
        return answer.status, body.decode("utf-8")


def _counters(text: str) -> tuple[dict[str, float], float]:
    """By COUNTED; and whether a device is switched off, 0 also where there is none."""
    sums, device_off = dict.fromkeys(COUNTED, 0.0), 0.0
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name in _COUNTERS:
                sums[_COUNTERS[one.name]] += one.value
            elif one.name == _DEVICE_OFF:
                device_off = one.value
            elif one.name == _REQUESTS:
                sums["Requests"] += one.value
                sums["ServerErrors"] += one.value if _status(one.labels) >= 500 else 0.0
    return sums, device_off


def _status(labels: Mapping[str, Any]) -> int:
    text = str(labels.get("status", ""))
    return int(text) if text.isdecimal() else 0


def _disk_used(folder: Path) -> float:
    about = os.statvfs(folder)
    return 100.0 * (1 - about.f_bavail / about.f_blocks) if about.f_blocks else 0.0
