"""The engine, as Prometheus sees it: which one codes, and what a device has done and failed to do."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from s4weights.codec.engines import DeviceEngine, Engine


class EngineCollector(Collector):
    """Asks the engine whenever it is read, so that nothing is counted twice."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """See Collector."""
        engine = self._engine
        in_use = GaugeMetricFamily("s4weights_engine", "The engine that codes frames", labels=["engine"])
        counts = engine.counts if isinstance(engine, DeviceEngine) else None
        in_use.add_metric([engine_in_use(engine)], 1)
        yield in_use
        if counts is None:
            return
        off = GaugeMetricFamily("s4weights_device_off", "1 where the device failed too often and is switched off")
        off.add_metric([], int(bool(counts.off)))
        yield off
        for name, text, value in (
            ("batches", "Batches that a device coded", counts.batches),
            ("frames", "Frames that a device coded", counts.frames),
            ("logical_bytes", "Logical bytes of these", counts.logical_bytes),
            ("faults", "Batches that a device did not code right, or at all", counts.faults),
            ("fallback_frames", "Frames that the processor coded in its place", counts.fallbacks),
        ):
            yield CounterMetricFamily(f"s4weights_device_{name}", text, value=value)


def engine_in_use(engine: Engine) -> str:
    """Its name; that of the processor's where a device is switched off."""
    is_off = isinstance(engine, DeviceEngine) and bool(engine.counts.off)
    return "native" if is_off else engine.name
