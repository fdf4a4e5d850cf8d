"""The flags that are settings, shared by `serve` and `config`."""

from __future__ import annotations

import argparse
from typing import Any, Final

_FLAGS: Final = (
    ("--upstream", "upstream", "DIR, s3://REGION or https://ENDPOINT: where the buckets are"),
    ("--listen", "listen", "HOST:PORT of S3 (127.0.0.1:9000)"),
    ("--health", "health", "HOST:PORT of /healthz, /readyz, /metrics, /status (127.0.0.1:8080)"),
    ("--state", "state_dir", "DIR for spilled parts and the journal (~/.local/state/s4weights)"),
    ("--domain", "domain", "DOMAIN[,DOMAIN] of virtual-host style names"),
    ("--mode", "mode", "auto, or passthrough: store new bodies as they come"),
    ("--engine", "engine", "auto, native or reference"),
    ("--threads", "threads", "codec threads (one a processor)"),
    ("--memory", "memory_bytes", "BYTES of all bodies in flight, such as 512MiB"),
    ("--log-level", "log_level", "DEBUG, INFO, WARNING or ERROR"),
    ("--config", "config", "a TOML FILE of settings"),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag a setting."""
    for flag, name, text in _FLAGS:
        parser.add_argument(flag, dest=name, metavar=text.split(",")[0].split(" ")[0], help=text)


def given_flags(options: argparse.Namespace) -> dict[str, Any]:
    """Those that were given."""
    return {name: value for _, name, _ in _FLAGS if (value := getattr(options, name)) is not None}
