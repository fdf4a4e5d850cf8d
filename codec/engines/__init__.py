"""Engines: the same frames, byte for byte, by different means."""

from __future__ import annotations

import logging
from typing import Final

from ..errors import ConfigError, EngineUnavailable
from ..limits import GPU_MEMORY_BYTES
from .interface import DeviceCounts, DeviceEngine, EncodedPayload, Engine
from .native import NativeEngine
from .reference import ReferenceEngine

__all__ = [
    "ENGINES",
    "DeviceCounts",
    "DeviceEngine",
    "EncodedPayload",
    "Engine",
    "NativeEngine",
    "ReferenceEngine",
    "choose_engine",
]

_log = logging.getLogger(__name__)


ENGINES: Final = ("auto", "native", "gpu", "reference")


def choose_engine(name: str = "auto", *, gpu_memory_bytes: int = GPU_MEMORY_BYTES) -> Engine:
    """Return the engine of that name; `auto`: the GPU's where it runs here, else the native one.

    gpu_memory_bytes: of the device, at most. Raises: ConfigError; EngineUnavailable where `gpu` is asked for and cannot be.
    """
    if name == "native":
        return NativeEngine()
    if name == "reference":
        return ReferenceEngine()
    if name not in ENGINES:
        raise ConfigError(f"engine: expected {', '.join(ENGINES)}, found {name!r}")
    from ..gpu import usable

    if name == "gpu":
        return usable.shared_engine(gpu_memory_bytes)
    if usable.may_be_usable():
        try:
            return usable.shared_engine(gpu_memory_bytes)
        except EngineUnavailable as error:
            _log.info("the processor codes alone: %s", error)
    return NativeEngine()
