"""save: torch.save's own stream, coded on its way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from s4weights.codec.types import Buffer, Level
from s4weights.files import whole_file

from .container_stream import ContainerStream
from .s3 import open_client, upload
from .targets import S3Uri, Target, parse_level, parse_target


def save(
    obj: object, target: Target, *, level: str | Level = "balanced", threads: int = 0, endpoint: str | None = None
) -> None:
    """Store obj as torch.save would, in a container.

    target: a path, s3://BUCKET/KEY or a file object open for writing. A path or object is replaced when the new one is whole.
    level: fast, balanced or small. threads: 0: one a processor. endpoint: of an S3 server other than boto3's own
    configuration names; never that of our proxy, which codes by itself what torch.save sends it.
    Host memory beside obj: some frames and parts; tensors on another device come over one storage at a time.
    Raises: ConfigError, OSError, what torch.save raises, botocore's errors.
    """
    place = parse_target(target)
    coded = parse_level(level)
    if isinstance(place, Path):
        with whole_file(place) as file:
            _save(obj, file.write, coded, threads)
    elif isinstance(place, S3Uri):
        with upload(open_client(endpoint), place) as writing:
            _save(obj, writing.write, coded, threads)
    else:
        _save(obj, place.write, coded, threads)


def _save(obj: object, send: Callable[[Buffer], Any], level: Level, threads: int) -> None:
    with closing(ContainerStream(send, level, threads)) as stream:
        # Given a file object, torch.save writes each storage from where it lies, in one piece.
        torch.save(obj, stream)  # type: ignore[arg-type]
        stream.finish()
