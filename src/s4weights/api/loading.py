"""load: torch.load on the body of a container, decoded where it is read; plain files as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import torch

from s4weights.bodies import BaseFiles, Stored, StoredFile, is_container
from s4weights.codec.container import HEADER_BYTES
from s4weights.codec.engines import choose_engine
from s4weights.codec.errors import ConfigError
from s4weights.codec.limits import SNIFF_BYTES
from s4weights.codec.sniff import sniff
from s4weights.codec.types import Kind

from .body_reader import open_body, open_plain
from .object_bytes import ObjectBytes
from .s3 import S3Bytes, open_client
from .targets import Named, S3Uri, Target, parse_target


def load(
    source: Target,
    map_location: Any = None,
    weights_only: bool = True,
    *,
    bases: Sequence[Named] = (),
    threads: int = 0,
    endpoint: str | None = None,
    **torch_options: Any,
) -> Any:
    """What torch.load gives for the body: of a container, or of a plain torch.save or safetensors file.

    source: a path, s3://BUCKET/KEY or a seekable file object. bases: files that a delta may need besides those beside it.
    threads, endpoint: as for save. torch_options: of torch.load. Every frame is verified as it is read. Host memory beside
    the tensors: some frames and blocks; a safetensors body is read whole before it becomes tensors.
    Raises: FormatError, MissingBase, ConfigError, OSError, what torch.load raises, botocore's errors.
    """
    place = parse_target(source)
    options = {"map_location": map_location, "weights_only": weights_only, **torch_options}
    with open_logical(place, bases=bases, threads=threads, endpoint=endpoint) as (body, is_ours):
        kind = sniff(body.read(SNIFF_BYTES), complete=True)
        body.seek(0)
        if isinstance(place, Path) and kind is not Kind.SAFETENSORS and not is_ours:
            return torch.load(place, **options)  # nosec B614 - weights_only unless the caller says otherwise
        return _load(body, kind, options)


@contextmanager
def open_logical(
    place: Path | S3Uri | BinaryIO, *, bases: Sequence[Named] = (), threads: int = 0, endpoint: str | None = None
) -> Iterator[tuple[BinaryIO, bool]]:
    """The body that lies there, seekable, and whether it is that of a container. Raises: as load."""
    with (
        closing(_open(place, endpoint)) as stored,
        closing(BaseFiles([Path(one) for one in bases], choose_engine())) as near,
    ):
        if is_container(stored.read(0, HEADER_BYTES)):
            with open_body(stored, _where(place), near, threads) as body:
                yield body, True
        else:
            with open_plain(stored) as body:
                yield body, False


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
