"""Which engine codes what is not the proxy's: commands on files, and the PyTorch API."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from s4weights.codec.engines import ENGINES, Engine, choose_engine
from s4weights.codec.errors import ConfigError

_ENGINE = "S4W_ENGINE"


def from_env(environment: Mapping[str, str]) -> str:
    """What S4W_ENGINE names, as it does for the proxy. Raises: ConfigError."""
    name = environment.get(_ENGINE) or "auto"
    if name not in ENGINES:
        raise ConfigError(f"{_ENGINE}: expected {', '.join(ENGINES)}, found {name!r}")
    return name


def open_engine(name: str | None = None, *, one_by_one: bool = False) -> Engine:
    """The engine of that name, by default of S4W_ENGINE. Raises: ConfigError, EngineUnavailable.

    one_by_one: frames do not come many at a time, so `auto` is the processor's.
    """
    name = name or from_env(os.environ)
    return choose_engine("native" if one_by_one and name == "auto" else name)


def name_in_callers_process(name: str | None = None, place: object = None) -> str:
    """The name for a call of the Python API, by default S4W_ENGINE's. Raises: ConfigError.

    `auto` is the processor's unless the caller has started CUDA, or place (torch.load's map_location) is on it: to start it
    takes memory of the device, and breaks the fork of workers that use it.
    """
    name = name or from_env(os.environ)
    return "native" if name == "auto" and not (_is_cuda_started() or _is_on_cuda(place)) else name


def open_callers_engine(name: str | None = None, place: object = None) -> Engine:
    """The engine of name_in_callers_process. Raises: ConfigError, EngineUnavailable."""
    return choose_engine(name_in_callers_process(name, place))


def _is_cuda_started() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def _is_on_cuda(place: object) -> bool:
    if isinstance(place, Mapping):
        return any(_is_on_cuda(one) for one in place.values())
    return str(place).partition(":")[0] == "cuda"
