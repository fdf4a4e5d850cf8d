"""Traces by the SDK's own exporter in memory; nothing of it without the setting."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import numpy as np
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from s4weights.codec.errors import ConfigError
from s4weights.proxy.app import running
from s4weights.proxy.config import Settings
from s4weights.proxy.tracing import exporting, tracing
from tests.proxy.handlers.conftest import ACCESS_KEY, BUCKET, SECRET_KEY, Service
from tests.proxy.objects.conftest import safetensors


@pytest.fixture
async def traced(tmp_path):
    (tmp_path / "buckets" / BUCKET).mkdir(parents=True)
    settings = Settings(
        upstream=str(tmp_path / "buckets"),
        state_dir=tmp_path / "state",
        listen="127.0.0.1:0",
        health="127.0.0.1:0",
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
    )
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with tracing(provider):
        async with running(settings) as one:
            yield Service(one, tmp_path / "buckets"), exporter
    provider.shutdown()


async def test_a_put_is_a_span_with_ratio_and_children_for_encoding_and_the_bucket(traced):
    service, exporter = traced
    body = safetensors(np.random.default_rng(0).normal(0, 0.02, 200_000))
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=body)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    root = spans["PutObject"]
    assert root.parent is None
    assert root.attributes["aws.s3.bucket"] == BUCKET
    assert root.attributes["http.response.status_code"] == 200
    assert root.attributes["s4weights.logical_bytes"] == len(body)
    assert root.attributes["s4weights.stored_bytes"] == service.stored_size("k")
    assert root.attributes["s4weights.ratio"] == len(body) / service.stored_size("k") > 1
    children = {name for name, span in spans.items() if span.parent and span.parent.span_id == root.context.span_id}
    assert {"encode", "upstream.put"} <= children
    assert spans["encode"].attributes["logical_bytes"] == len(body)
    assert len({span.context.trace_id for span in spans.values()}) == 1


async def test_a_clients_trace_goes_on_and_requests_are_apart(traced):
    service, exporter = traced
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = service.signed("GET", f"/{BUCKET}/missing") | {"traceparent": f"00-{trace}-{parent}-01"}
    assert (await service.send("GET", f"/{BUCKET}/missing", headers))[0] == 404
    await service.call("list_objects_v2", Bucket=BUCKET)
    asked, listed = (
        next(one for one in exporter.get_finished_spans() if one.name == name)
        for name in ("GetObject", "ListObjectsV2")
    )
    assert (f"{asked.context.trace_id:032x}", f"{asked.parent.span_id:016x}") == (trace, parent)
    assert asked.status.status_code is not StatusCode.ERROR
    assert listed.parent is None


async def test_no_span_holds_a_secret(traced):
    service, exporter = traced
    path = service.presigned("GET", f"/{BUCKET}/k")
    await service.send("GET", path, {"host": service.endpoint.removeprefix("http://")})
    text = "".join(span.to_json() for span in exporter.get_finished_spans())
    assert "GetObject" in text
    assert "X-Amz" not in text
    assert path[-64:] not in text


async def test_spans_reach_a_collector_by_http(tmp_path):
    received = asyncio.Event()
    heads = []

    async def collect(reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        received.set()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    collector = await asyncio.start_server(collect, "127.0.0.1", 0)
    port = collector.sockets[0].getsockname()[1]
    (tmp_path / "buckets").mkdir()
    settings = Settings(
        upstream=str(tmp_path / "buckets"),
        state_dir=tmp_path / "state",
        listen="127.0.0.1:0",
        health="127.0.0.1:0",
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        otlp_endpoint=f"http://127.0.0.1:{port}",
    )
    async with running(settings) as one:
        await Service(one, tmp_path / "buckets").call("list_buckets")
    await asyncio.wait_for(received.wait(), 10)
    collector.close()
    assert heads[0].startswith(b"POST /v1/traces HTTP/1.1\r\n")


async def test_without_the_setting_nothing_is_imported():
    code = "import sys, s4weights.proxy.app; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"pip install 's4weights\[otel\]'"):
        async with exporting("http://127.0.0.1:4318"):
            pass
