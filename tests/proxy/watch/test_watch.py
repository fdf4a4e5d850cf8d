"""What CloudWatch and Auto Scaling are told of a real service, by real HTTP."""

from __future__ import annotations

import asyncio
import io
import json
from urllib.parse import parse_qs

import aiohttp
import numpy as np
import pytest

from s4weights.proxy import instance_metadata
from s4weights.proxy.app import running
from s4weights.proxy.config import Settings
from s4weights.proxy.watch.embedded_metrics import UNITS, log_event, metrics_between
from s4weights.proxy.watch.fleet import Verdict
from s4weights.proxy.watch.run import Watched, watch
from s4weights.proxy.watch.sample import COUNTED, Sample, take_sample
from tests.proxy.entitlement.stubs import Handler, Metadata, serving
from tests.proxy.objects.conftest import safetensors

INSTANCE = "i-0123456789abcdef0"


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "buckets" / "training").mkdir(parents=True)
    return Settings(
        upstream=str(tmp_path / "buckets"), state_dir=tmp_path / "state", listen="127.0.0.1:0", health="127.0.0.1:0"
    )


def alive(uptime_s=10.0, ready=True, **counters):
    return Sample(True, ready, "ready", uptime_s, dict.fromkeys(COUNTED, 0.0) | counters, {"MemoryUsed": 1.0})


class Aws:
    """Logs and Auto Scaling. events: as CloudWatch would read them. faults: that the next calls are answered with."""

    def __init__(self):
        self.events, self.unhealthy, self.streams, self.faults = [], [], set(), []

    def answer(self, request, body):
        if self.faults:
            return self.faults.pop(0), b"{}"
        call = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        if call == "CreateLogStream":
            stream = json.loads(body)["logStreamName"]
            if stream in self.streams:
                return 400, b'{"__type": "ResourceAlreadyExistsException"}'
            self.streams.add(stream)
            return 200, b"{}"
        if call == "PutLogEvents":
            self.events += [json.loads(one["message"]) for one in json.loads(body)["logEvents"]]
            return 200, b"{}"
        form = parse_qs(body.decode())
        assert form["Action"] == ["SetInstanceHealth"]
        self.unhealthy.append(form)
        return 200, b"<SetInstanceHealthResponse xmlns='http://autoscaling.amazonaws.com/doc/2011-01-01/'/>"


@pytest.fixture
def aws(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    aws = Aws()
    with (
        serving(type("AwsHandler", (Handler,), {"answer": staticmethod(aws.answer)})) as endpoint,
        Metadata({"/latest/meta-data/instance-id": INSTANCE}).serving() as metadata,
    ):
        monkeypatch.setattr(instance_metadata, "INSTANCE_ADDRESS", metadata)
        aws.endpoint = endpoint
        yield aws


def watched(aws, tmp_path, health, **changed):
    return Watched(
        **{
            "health": health,
            "state_dir": tmp_path,
            "log_group": "/s4weights/train",
            "stack": "train",
            "region": "eu-central-1",
            "every_s": 0.01,
            "endpoint": aws.endpoint,
        }
        | changed
    )


async def test_a_real_service_is_counted(settings, tmp_path):
    body = safetensors(np.random.default_rng(0).normal(0, 0.02, 1 << 20))
    async with running(settings) as service, aiohttp.ClientSession() as session:
        health = f"http://127.0.0.1:{service.health_port}"
        before = await take_sample(health, tmp_path)
        async with session.put(f"{service.endpoint}/training/a", data=io.BytesIO(body)) as answer:
            assert answer.status == 200
        async with session.get(f"{service.endpoint}/training/a?torrent") as answer:
            assert answer.status == 501
        now = await take_sample(health, tmp_path)
    values = metrics_between(before, now)
    assert values.keys() == UNITS.keys()
    assert (values["Alive"], values["Ready"], values["Started"]) == (1, 1, 0)
    assert values["LogicalBytes"] == len(body)
    assert 0.5 < values["StoredBytes"] / values["LogicalBytes"] < 0.9
    assert (values["Requests"], values["ServerErrors"], values["FramesFailed"]) == (2, 1, 0)
    assert 0 < values["DiskUsed"] <= 100
    gone = await take_sample(health, tmp_path)
    assert (gone.alive, gone.ready) == (False, False)
    assert metrics_between(now, gone) == {"Alive": 0, "Ready": 0, "DiskUsed": pytest.approx(values["DiskUsed"], abs=5)}


async def test_a_port_that_talks_nonsense_is_no_service(tmp_path):
    with serving(type("Nonsense", (Handler,), {"answer": staticmethod(lambda *_: (200, b"<html>"))})) as health:
        sample = await take_sample(health, tmp_path)
    assert not sample.alive
    assert health in sample.why


def test_a_process_that_began_again_counts_from_nothing():
    before = alive(100.0, Requests=50.0)
    assert metrics_between(None, before)["Alive"] == 1
    assert "Requests" not in metrics_between(None, before)
    assert metrics_between(before, alive(160.0, Requests=70.0))["Requests"] == 20
    again = metrics_between(before, alive(3.0, Requests=7.0))
    assert (again["Requests"], again["Started"]) == (7, 1)
    older_than_the_one_before = metrics_between(before, alive(300.0, Requests=8.0))
    assert (older_than_the_one_before["Requests"], older_than_the_one_before["Started"]) == (8, 1)
    after_silence = metrics_between(Sample(), alive(500.0, Requests=9.0))
    assert (after_silence["Requests"], after_silence["Started"]) == (9, 1)


def test_an_event_is_one_that_cloudwatch_makes_metrics_of():
    # Source: the format's specification: each metric is a member of the root and a number, each dimension one and text.
    values = metrics_between(alive(1.0), alive(2.0, LogicalBytes=5.0))
    event = json.loads(log_event(values, stack="train", instance=INSTANCE, why="ready", at_ms=1_700_000_000_000))
    assert event["_aws"]["Timestamp"] == 1_700_000_000_000
    [directive] = event["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "s4weights"
    assert directive["Dimensions"] == [["Stack"]]
    assert event["Stack"] == "train"
    assert len(directive["Metrics"]) <= 100
    for metric in directive["Metrics"]:
        assert isinstance(event[metric["Name"]], float)
        assert metric["Unit"] in {"Count", "Bytes", "Percent"}


def test_a_machine_is_lost_only_where_it_served_and_does_not_come_back():
    verdict = Verdict(after_s=60)
    assert not any(verdict.is_lost(Sample(), now_s) for now_s in range(0, 1000, 10))  # never came up: so will the next
    assert not verdict.is_lost(alive(ready=True), 1000)
    assert not any(verdict.is_lost(alive(ready=False), now_s) for now_s in range(1010, 2000, 10))  # the bucket is away
    assert not verdict.is_lost(Sample(), 2000)
    assert not verdict.is_lost(alive(), 2050)
    assert [verdict.is_lost(Sample(), now_s) for now_s in (2060, 2119, 2120, 2180)] == [False, False, True, True]
    never = Verdict(after_s=0)
    assert not never.is_lost(alive(), 0)
    assert not never.is_lost(Sample(), 1e9)


async def test_cloudwatch_is_told_and_what_it_did_not_take_goes_with_the_next_look(aws, settings, tmp_path):
    async with running(settings) as service:
        health = f"http://127.0.0.1:{service.health_port}"
        await watch(watched(aws, tmp_path, health, looks=2))
        assert [event["Ready"] for event in aws.events] == [1, 1]
        assert {(event["Instance"], event["Stack"]) for event in aws.events} == {(INSTANCE, "train")}
        aws.faults = [403, 403]
        await watch(watched(aws, tmp_path, health, looks=3))
    assert len(aws.events) == 2 + 1
    assert aws.streams == {INSTANCE}
    assert aws.unhealthy == []


async def test_auto_scaling_is_told_of_a_service_that_does_not_come_back(aws, settings, tmp_path):
    async with running(settings) as service:
        health = f"http://127.0.0.1:{service.health_port}"
        await take_sample(health, tmp_path)
        looking = watched(aws, tmp_path, health, looks=0, replace_after_s=0.05, every_s=0.05)
        task = asyncio.create_task(watch(looking))
        while not aws.events:  # noqa: ASYNC110 - they come from another thread
            await asyncio.sleep(0.02)
        assert aws.unhealthy == []
    async with asyncio.timeout(20):
        while not aws.unhealthy:  # noqa: ASYNC110 - they come from another thread
            await asyncio.sleep(0.02)
    task.cancel()
    [form] = aws.unhealthy[:1]
    assert form["InstanceId"] == [INSTANCE]
    assert form["HealthStatus"] == ["Unhealthy"]
    assert form["ShouldRespectGracePeriod"] == ["true"]
    assert aws.events[-1]["Alive"] == 0
    assert "Cannot connect" in aws.events[-1]["Why"]
