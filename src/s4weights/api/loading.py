"""load: torch.load on the body of a container, decoded where it is read; plain files as well."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from s4weights.bodies import BaseFiles, ContainerBody, Stored, StoredFile, is_container
from s4weights.codec.container import HEADER_BYTES
from s4weights.codec.engines import Engine
from s4weights.codec.errors import ConfigError
from s4weights.codec.gpu.device import Device
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.limits import SNIFF_BYTES
from s4weights.codec.sniff import sniff
from s4weights.codec.types import Kind
from s4weights.engine import open_callers_engine

from .body_reader import open_body, open_plain
from .device_loading import load_to_device
from .object_bytes import ObjectBytes
from .s3 import S3Bytes, open_client
from .targets import Named, S3Uri, Target, parse_target


def load(
    source: Target,
    map_location: Any = None,
    weights_only: bool = True,
    *,
    bases: Sequence[Named] = (),
    engine: str | None = None,
    threads: int = 0,
    endpoint: str | None = None,
    **torch_options: Any,
) -> Any:
    """What torch.load gives for the body: of a container, or of a plain torch.save or safetensors file.

    source: a path, s3://BUCKET/KEY or a seekable file object. bases: files that a delta may need besides those beside it.
    engine, threads, endpoint: as for save. torch_options: of torch.load. Every frame is verified as it is read.
    `auto` takes the GPU where map_location is on it, or CUDA has been started.
    With the GPU's engine and map_location its device, stored bytes go up and are decoded there.
    Host memory beside the tensors: some frames and blocks; a safetensors body is read whole before it becomes tensors.
    Raises: FormatError, MissingBase, ConfigError, OSError, what torch.load raises, botocore's errors.
    """
    place, used = parse_target(source), open_callers_engine(engine, map_location)
    options = {"map_location": map_location, "weights_only": weights_only, **torch_options}
    with open_logical(place, used, bases=bases, threads=threads, endpoint=endpoint) as (file, body):
        kind = sniff(file.read(SNIFF_BYTES), complete=True)
        if body is None and isinstance(place, Path) and kind is not Kind.SAFETENSORS:
            return torch.load(place, **options)  # nosec B614 - weights_only unless the caller says otherwise
        if body and kind is Kind.TORCH_ZIP and isinstance(used, GpuEngine) and _goes_to(used.device, options):
            is_loaded, state = load_to_device(file.raw, body, used)
            if is_loaded:
                return state
        file.seek(0)
        return _load(cast(BinaryIO, file), kind, options)


@contextmanager
def open_logical(
    place: Path | S3Uri | BinaryIO,
    engine: Engine,
    *,
    bases: Sequence[Named] = (),
    threads: int = 0,
    endpoint: str | None = None,
) -> Iterator[tuple[io.BufferedReader[Any], ContainerBody | None]]:
    """The body that lies there, as a file, and by its frames where it is a container's. Raises: as load."""
    with (
        closing(_open(place, endpoint)) as stored,
        closing(BaseFiles([Path(one) for one in bases], engine)) as near,
    ):
        if not is_container(stored.read(0, HEADER_BYTES)):
            with open_plain(stored) as plain:
                yield plain, None
            return
        with open_body(stored, _where(place), engine, near, threads) as (file, body):
            yield file, body


def _goes_to(device: Device, options: dict[str, Any]) -> bool:
    """Whether all that torch.load is asked for is tensors on this device."""
    asked = {name for name, value in options.items() if value is not None}
    if asked != {"map_location", "weights_only"} or options["weights_only"] is not True:
        return False
    place = options["map_location"]
    return isinstance(place, (str, torch.device)) and device.is_at(torch.device(place))


def _load(body: BinaryIO, kind: Kind | None, options: dict[str, Any]) -> Any:
    if kind is not Kind.SAFETENSORS:
        return torch.load(body, **options)  # nosec B614 - as above
    from safetensors.torch import load as load_safetensors

    place = options["map_location"]
    if not (place is None or isinstance(place, (str, torch.device))):
        raise ConfigError(f"map_location: expected a device for a safetensors body, found {type(place).__name__}")
    tensors = load_safetensors(body.read())
    return tensors if place is None else {name: tensor.to(place) for name, tensor in tensors.items()}


def _open(place: Path | S3Uri | BinaryIO, endpoint: str | None) -> Stored:
    if isinstance(place, Path):
        return StoredFile(place)
    if isinstance(place, S3Uri):
        return S3Bytes(open_client(endpoint), place)
    return ObjectBytes(place)


def _where(place: Path | S3Uri | BinaryIO) -> Path:
    if isinstance(place, (Path, S3Uri)):
        return Path(str(place))
    name = getattr(place, "name", None)
    return Path(name) if isinstance(name, str) else Path("file object")
