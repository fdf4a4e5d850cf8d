"""Engines: the same frames, byte for byte, by different means."""

from __future__ import annotations

from ..errors import ConfigError
from .interface import DeviceEngine, EncodedPayload, Engine
from .native import NativeEngine
from .reference import ReferenceEngine

__all__ = ["DeviceEngine", "EncodedPayload", "Engine", "NativeEngine", "ReferenceEngine", "choose_engine"]


def choose_engine(name: str = "auto") -> Engine:
    """Return the engine of that name; `auto`: the fastest that runs here. Raises: ConfigError."""
    if name in ("auto", "native"):
        return NativeEngine()
    if name == "reference":
        return ReferenceEngine()
    raise ConfigError(f"engine: expected auto, native or reference, found {name!r}")
