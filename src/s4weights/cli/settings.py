"""The flags that are settings, shared by `serve` and `config`."""

from __future__ import annotations

import argparse
from typing import Any, Final

from s4weights.codec.engines import ENGINES

# Flag, setting, what stands for its value in --help, and what it says.
FLAGS: Final = (
    ("--upstream", "upstream", "WHERE", "DIR, s3://REGION or https://ENDPOINT: where the buckets are"),
    ("--listen", "listen", "HOST:PORT", "where S3 is spoken (127.0.0.1:9000)"),
    ("--health", "health", "HOST:PORT", "where /healthz, /readyz, /metrics and /status answer (127.0.0.1:8080)"),
    ("--state", "state_dir", "DIR", "spilled parts and the journal, one proxy a directory (~/.local/state/s4weights)"),
    ("--tls-cert", "tls_cert", "FILE", "a PEM chain: speak TLS; read again as it changes"),
    ("--tls-key", "tls_key", "FILE", "its private key"),
    ("--domain", "domain", "DOMAIN", "bases of virtual-host style names, separated by commas"),
    ("--mode", "mode", "MODE", "auto, or passthrough: store new bodies as they come"),
    ("--engine", "engine", "ENGINE", "auto, native, gpu or reference"),
    ("--level", "level", "LEVEL", "fast, balanced or small: what new containers are written for"),
    ("--threads", "threads", "N", "codec threads (0: one a processor)"),
    ("--memory", "memory_bytes", "BYTES", "what all bodies in flight may hold together (768MiB)"),
    ("--log-level", "log_level", "LEVEL", "DEBUG, INFO, WARNING or ERROR"),
    ("--log-format", "log_format", "FORMAT", "text, or json: one object a line"),
    ("--config", "config", "FILE", "a TOML file of settings, by their names in `s4weights config`"),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag a setting."""
    for flag, name, metavar, text in FLAGS:
        parser.add_argument(flag, dest=name, metavar=metavar, help=text)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The flag of a command that codes by itself."""
    parser.add_argument(
        "--engine", choices=ENGINES, help="by default that of S4W_ENGINE, else auto: the GPU's where it runs"
    )


def given_flags(options: argparse.Namespace) -> dict[str, Any]:
    """Those that were given."""
    return {name: value for _, name, _, _ in FLAGS if (value := getattr(options, name)) is not None}
