"""Traces for OpenTelemetry: a span a request, with children for encoding and for each call to the bucket.

Off, and nothing imported, unless `otlp_endpoint` is set; needs `pip install 's4weights[otel]'`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from s4weights.codec.errors import ConfigError
from s4weights.proxy.upstream.protocol import Upstream
from s4weights.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

_EXPORT_S: Final = 5.0
_tracer: Tracer | None = None

Attributes: TypeAlias = Mapping[str, str | int | float | bool]


@asynccontextmanager
async def exporting(endpoint: str) -> AsyncIterator[None]:
    """Send spans to an OTLP collector (HTTP) for the length of a block; the SDK's own OTEL_* variables hold as well.

    endpoint: such as http://127.0.0.1:4318; empty: nothing is traced. Raises: ConfigError.
    """
    if not endpoint:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(f"otlp_endpoint: {error.name} is missing: pip install 's4weights[otel]'") from None
    provider = TracerProvider(
        resource=Resource.create({"service.name": "s4weights", "service.version": __version__}),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        with tracing(provider):
            yield
    finally:
        await asyncio.to_thread(provider.shutdown)  # sends what is left


@contextmanager
def tracing(provider: TracerProvider) -> Iterator[None]:
    """Give spans to a provider for the length of a block."""
    global _tracer
    _tracer = provider.get_tracer("s4weights", __version__)
    try:
        yield
    finally:
        _tracer = None


class RequestSpan:
    """The span of one request; does nothing where nothing is traced. headers: the client's, with its traceparent."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._span: Span | None = None
        if _tracer is None:
            return
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = TraceContextTextMapPropagator().extract(headers)
        self._span = _tracer.start_span("S3", context=parent, kind=trace.SpanKind.SERVER)
        # The task of a request ends with it: nothing is to be detached.
        context.attach(trace.set_span_in_context(self._span, parent))

    def end(self, name: str, status: int, attributes: Attributes) -> None:
        """The request was answered. name: S3's of the operation."""
        if self._span is None:
            return
        from opentelemetry.trace import StatusCode

        self._span.update_name(name)
        self._span.set_attributes({**attributes, "rpc.system": "aws-api", "rpc.method": name})
        self._span.set_attribute("http.response.status_code", status)
        if status >= 500 or status == 499:
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


class WorkSpan:
    """A child of the request's span that may end in another task than it began in."""

    def __init__(self, name: str) -> None:
        self._span = _tracer.start_span(name) if _tracer is not None else None

    def end(self, **attributes: str | float) -> None:
        """Once; later calls change nothing."""
        if self._span is not None:
            self._span.set_attributes(attributes)
            self._span.end()
            self._span = None


def describe_request(attributes: Attributes) -> None:
    """Add to the span of the request that this task works for."""
    if _tracer is None:
        return
    from opentelemetry import trace

    trace.get_current_span().set_attributes(attributes)


def traced_upstream(upstream: Upstream) -> Upstream:
    """The same bucket store; each call is a span where anything is traced. To the head of an answer, not its last byte."""
    return cast(Upstream, _TracedUpstream(upstream)) if _tracer is not None else upstream


class _TracedUpstream:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._upstream, name)
        return _traced(found, name) if inspect.iscoroutinefunction(found) else found


def _traced(call: Any, name: str) -> Any:
    @functools.wraps(call)
    async def work(*arguments: Any, **options: Any) -> Any:
        from opentelemetry import trace

        if _tracer is None or not trace.get_current_span().is_recording():
            return await call(*arguments, **options)  # for no request: a start, a clean-up
        with _tracer.start_as_current_span(f"upstream.{name}") as span:
            if arguments and isinstance(arguments[0], str):
                span.set_attribute("aws.s3.bucket", arguments[0])
            return await call(*arguments, **options)

    return work
