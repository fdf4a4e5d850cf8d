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
    "ENTROPIES",
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


# What a GPU's engine may try on planes: nothing beside the open coders; GDeflate where it gains; nvCOMP's ANS for exponents,
# which only nvCOMP reads.
ENTROPIES: Final = ("open", "gdeflate", "nvcomp-ans")


def choose_engine(name: str = "auto", *, gpu_memory_bytes: int = GPU_MEMORY_BYTES, entropy: str = "open") -> Engine:
    """Return the engine of that name; `auto`: the GPU's where it runs here, else the native one.

    `gpu` and, where a driver, torch and triton are there, `auto` start CUDA in this process and prove the device, once: that
    takes seconds, and memory of the device.

    gpu_memory_bytes: of the device, at most. entropy: one of ENTROPIES; the processor's engines know the open coders only.
    Raises: ConfigError; EngineUnavailable where `gpu` is asked for and cannot be.
    """
    if entropy not in ENTROPIES or (entropy != "open" and name in ("native", "reference")):
        raise ConfigError(
            f"entropy: expected open, or with the gpu engine {', '.join(ENTROPIES[1:])}, found {entropy!r}"
        )
    if name == "native":
        return NativeEngine()
    if name == "reference":
        return ReferenceEngine()
    if name not in ENGINES:
        raise ConfigError(f"engine: expected {', '.join(ENGINES)}, found {name!r}")
    from ..gpu import usable

    if name == "gpu":
        return usable.shared_engine(gpu_memory_bytes, entropy)
    if usable.may_be_usable():
        try:
            return usable.shared_engine(gpu_memory_bytes, entropy)
        except EngineUnavailable as error:
            _log.info("the processor codes alone: %s", error)
    return NativeEngine()
