"""What callers name: a path, an s3:// URI or a file object."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from s4weights.codec.errors import ConfigError
from s4weights.codec.types import Level

Named: TypeAlias = "str | os.PathLike[str]"
Target: TypeAlias = "Named | BinaryIO"

_SCHEME: Final = "s3://"


@dataclass(frozen=True, slots=True)
class S3Uri:
    """bucket, key: not empty; key without a slash in front."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.key}"


def parse_target(target: Target) -> Path | S3Uri | BinaryIO:
    """Raises: ConfigError on an s3:// URI without bucket or key, or any other scheme; TypeError."""
    if isinstance(target, (str, os.PathLike)):
        return parse_name(target)
    if hasattr(target, "read") or hasattr(target, "write"):
        return target
    raise TypeError(f"expected a path, an s3:// URI or a file object, found {type(target).__name__}")


def parse_name(name: Named) -> Path | S3Uri:
    """Raises: ConfigError, TypeError."""
    text = os.fspath(name)
    if not isinstance(text, str):
        raise TypeError(f"expected a path of text, found {type(text).__name__}")
    if not text:
        raise ConfigError("expected a path or an s3:// URI, found an empty text")
    if not text.startswith(_SCHEME):
        if "://" in text:
            raise ConfigError(f"expected a path or s3://BUCKET/KEY, found {text!r}")
        return Path(text)
    bucket, _, key = text.removeprefix(_SCHEME).partition("/")
    if not bucket or not key.strip("/"):
        raise ConfigError(f"expected s3://BUCKET/KEY, found {text!r}")
    return S3Uri(bucket, key)


def parse_level(level: str | Level) -> Level:
    """Raises: ConfigError."""
    try:
        return Level(level)
    except ValueError:
        choices = ", ".join(one.value for one in Level)
        raise ConfigError(f"level: expected {choices}, found {level!r}") from None
