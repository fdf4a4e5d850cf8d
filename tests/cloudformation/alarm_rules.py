"""Alarms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cloudformation.stack import Stack, rule


def metrics_of(alarm: dict[str, Any]) -> set[tuple[str, str]]:
    """(namespace, metric) of each."""
    parts = [one["MetricStat"]["Metric"] for one in alarm.get("Metrics", []) if "MetricStat" in one]
    return {(one["Namespace"], one["MetricName"]) for one in parts or [alarm]}


@rule
def alarms_are_on_what_is_reported(stack: Stack) -> Iterator[str]:
    from s4weights.proxy.watch.embedded_metrics import NAMESPACE, UNITS

    for name, alarm in stack.of("CloudWatch::Alarm").items():
        for namespace, metric in metrics_of(alarm):
            if namespace != NAMESPACE or metric not in UNITS:
                yield f"{name}: {namespace} {metric}"


@rule
def silence_is_an_alarm(stack: Stack) -> Iterator[str]:
    ready = [one for one in stack.of("CloudWatch::Alarm").values() if one.get("MetricName") == "Ready"]
    if [one.get("TreatMissingData") for one in ready] != ["breaching"]:
        yield "no alarm on a machine that says nothing"


@rule
def alarms_tell_whoever_is_named(stack: Stack) -> Iterator[str]:
    topics = [stack.parameters["AlarmTopicArn"]] if "AlarmTopicArn" in stack.parameters else None
    for name, alarm in stack.of("CloudWatch::Alarm").items():
        if alarm.get("AlarmActions") != topics:
            yield f"{name}: {alarm.get('AlarmActions')}"
