"""Two looks as one log event that CloudWatch takes its metrics from.

Log events because a role may write to one log group alone; PutMetricData knows no resource.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
from typing import Any, Final

from .sample import COUNTED, Sample

NAMESPACE: Final = "s4weights"
DIMENSION: Final = "Stack"
UNITS: Final = {
    "Alive": "Count",
    "Ready": "Count",
    "Started": "Count",
    "Requests": "Count",
    "ServerErrors": "Count",
    "FramesFailed": "Count",
    "DeviceFaults": "Count",
    "DeviceOff": "Count",
    "LogicalBytes": "Bytes",
    "StoredBytes": "Bytes",
    "SpilledBytes": "Bytes",
    "MemoryUsed": "Percent",
    "DiskUsed": "Percent",
}


def metrics_between(before: Sample | None, now: Sample) -> dict[str, float]:
    """What happened since the look before, and the levels now. A process that began since counts from 0.

    It did where its uptime is less than at the look before, or a counter is.
    """
    values = {"Alive": float(now.alive), "Ready": float(now.ready), **now.levels}
    if not now.alive or before is None:
        return values
    # After a time without an answer it is not known what the process before counted.
    began = (
        not before.alive
        or now.uptime_s < before.uptime_s
        or any(now.counters[name] < before.counters[name] for name in COUNTED)
    )
    values["Started"] = float(began)
    for name in COUNTED:
        values[name] = now.counters[name] - (0.0 if began else before.counters[name])
    return values


def log_event(values: dict[str, float], *, stack: str, instance: str, why: str, at_ms: int) -> str:
    """The event: metrics a stack, so that machines come and go; the machine and the reason stand beside them."""
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [[DIMENSION]],
        "Metrics": [{"Name": name, "Unit": UNITS[name]} for name in values],
    }
    event: dict[str, Any] = {"_aws": {"Timestamp": at_ms, "CloudWatchMetrics": [directive]}}
    return json.dumps(event | {DIMENSION: stack, "Instance": instance, "Why": why} | values)
