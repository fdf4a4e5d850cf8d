"""What can be counted, in Prometheus form, and the totals behind `/status`."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from s4weights.codec.engines import Engine

from .engine_metrics import EngineCollector
from .tracing import describe_request

# Whole requests: from a cached HEAD to a checkpoint of many gigabytes.
_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800)


@dataclass(slots=True)
class Totals:
    """Since the start. logical, stored: bytes of objects written."""

    objects: int = 0
    logical_bytes: int = 0
    stored_bytes: int = 0
    fallbacks: int = 0


class Metrics:
    """One registry a process part, so that tests and several apps do not share counts."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._totals_lock = threading.Lock()
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._objects = Counter("s4weights_objects_written", "Objects written", ["kind"], registry=self._registry)
        self._logical = Counter(
            "s4weights_logical_bytes_written", "Bytes that clients wrote", ["kind"], registry=self._registry
        )
        self._stored = Counter(
            "s4weights_stored_bytes_written",
            "Bytes that went to the bucket",
            ["kind"],
            registry=self._registry,
        )
        self._fallbacks = Counter(
            "s4weights_frame_fallbacks",
            "Frames stored raw because their round trip failed",
            registry=self._registry,
        )
        self._spilled = Counter(
            "s4weights_spilled_bytes", "Bytes of parts that waited on disk", registry=self._registry
        )
        self._seconds = Histogram(
            "s4weights_request_seconds",
            "Requests",
            ["operation", "status"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._in_flight = Gauge("s4weights_requests_in_flight", "Requests under way", registry=self._registry)
        self._memory = Gauge("s4weights_memory_bytes", "Budget in use", ["budget"], registry=self._registry)

    def watch(self, engine: Engine) -> None:
        """Show what an engine counts by itself."""
        self._registry.register(EngineCollector(engine))

    def object_written(self, logical_bytes: int, stored_bytes: int, kind: str) -> None:
        """One object became visible."""
        self._objects.labels(kind).inc()
        self._logical.labels(kind).inc(logical_bytes)
        self._stored.labels(kind).inc(stored_bytes)
        with self._totals_lock:
            self.totals.objects += 1
            self.totals.logical_bytes += logical_bytes
            self.totals.stored_bytes += stored_bytes
        describe_request(
            {
                "s4weights.kind": kind,
                "s4weights.logical_bytes": logical_bytes,
                "s4weights.stored_bytes": stored_bytes,
                "s4weights.ratio": logical_bytes / stored_bytes if stored_bytes else 1.0,
            }
        )

    def frame_fallback(self) -> None:
        """One frame failed its round trip and was stored raw."""
        self._fallbacks.inc()
        with self._totals_lock:
            self.totals.fallbacks += 1

    def part_spilled(self, size: int) -> None:
        """One part waits on disk."""
        self._spilled.inc(size)

    def request_started(self) -> None:
        """One request came in."""
        self._in_flight.inc()

    def request_ended(self, operation: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self._in_flight.dec()
        self._seconds.labels(operation, str(status)).observe(seconds)

    def memory_used(self, budget: str, used_bytes: int) -> None:
        """What a budget has given out."""
        self._memory.labels(budget).set(used_bytes)

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)
