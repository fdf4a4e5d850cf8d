"""Which engine codes what is not the proxy's: commands on files, and the PyTorch API."""

from __future__ import annotations

import os
from collections.abc import Mapping

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
