"""save: torch.save's own stream, coded on its way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from s4weights.codec.engines import Engine
from s4weights.codec.types import Buffer, Level
from s4weights.engine import open_callers_engine
from s4weights.files import whole_file

from .container_stream import ContainerStream
from .s3 import open_client, upload
from .state_writer import StateWriter
from .targets import S3Uri, Target, parse_level, parse_target


def save(
    obj: object,
    target: Target,
    *,
    level: str | Level = "balanced",
    engine: str | None = None,
    threads: int = 0,
    endpoint: str | None = None,
) -> None:
    """Store obj as torch.save would, in a container.

    target: a path, s3://BUCKET/KEY or a file object open for writing. A path or object is replaced when the new one is whole.
    level: fast, balanced or small. engine: auto, native, gpu or reference; by default S4W_ENGINE; auto takes
    the GPU only where CUDA has been started. threads: 0: one a
    processor. endpoint: of an S3 server other than boto3's own configuration names; never that of our proxy, which codes by
    itself what torch.save sends it.
    Host memory beside obj: some frames and parts. Tensors on the GPU engine's device are encoded there; their bytes pass the
    host some chunks at a time, to be hashed. With other engines a storage on a device comes over whole.
    Raises: ConfigError, also where the endpoint is a proxy of ours; EngineUnavailable, OSError, what a file object raises, what
    torch.save raises, botocore's errors.
    """
    place = parse_target(target)
    coded, used = parse_level(level), open_callers_engine(engine)
    if isinstance(place, Path):
        with whole_file(place) as file:
            _save(obj, file.write, coded, used, threads)
    elif isinstance(place, S3Uri):
        with upload(open_client(endpoint), place) as writing:
            _save(obj, writing.write, coded, used, threads)
    else:
        _save(obj, place.write, coded, used, threads)


def _save(obj: object, send: Callable[[Buffer], Any], level: Level, engine: Engine, threads: int) -> None:
    writer = StateWriter.of(obj, engine)
    with closing(ContainerStream(send, level, engine, threads, has_etag=writer.device is None)) as stream:
        writer.write(stream)
        stream.finish()
