"""torch.distributed.checkpoint's writer and reader on containers.

    write:  plan of a rank -> files (dcp_layout.py) -> containers in a folder, or in a step of a run (dcp_files.py)
    read:   marker -> storage infos, digests of the files -> ranges of bodies

The marker, `.metadata`, is torch's own, and so is what TORCH_SAVE writes: torch's own reader takes folders that were unpacked.
Beside what torch reads of it the marker has the digest of every file, so that files of two saves are never taken for one.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any, BinaryIO, Final, cast

import torch
import xxhash
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter, SerializationFormat
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from s4weights.codec.errors import ChecksumMismatch, ConfigError, FormatError
from s4weights.codec.types import Level

from .dcp_files import shard_files
from .dcp_layout import SAFETENSORS, File, lay_out
from .steps import MARKER, ONE_FILE
from .targets import Named, parse_level

_VERSION: Final = getattr(filesystem, "CURRENT_DCP_VERSION", None)
# In the marker, beside what torch knows: name of a file -> XXH3-128 of its body.
_DIGESTS: Final = "s4weights_digests"
_CHUNK_BYTES: Final = 1 << 20


class DCPWriter(FileSystemWriter):
    """For dcp.save and dcp.async_save. A checkpoint is there once all of its files are."""

    def __init__(
        self,
        target: Named,
        *,
        step: int | None = None,
        level: str | Level = "balanced",
        endpoint: str | None = None,
        overwrite: bool = False,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        """target: a folder or s3://BUCKET/PREFIX for this checkpoint; with step, the run that it is a step of, where it is
        stored against the step before it.

        overwrite: whether one that is there, also one of save_checkpoint, may go; it goes before the new one's first byte.
        level, endpoint: as for save. Raises: ConfigError.
        """
        self.files = shard_files(target, step, parse_level(level), endpoint)
        super().__init__(str(self.files), overwrite=overwrite, serialization_format=serialization_format)

    def reset(self, checkpoint_id: str | PathLike[str] | None = None) -> None:
        """checkpoint_id: another folder; of a run, another step. Raises: ConfigError."""
        if checkpoint_id is not None:
            self.files = self.files.at(checkpoint_id)
        super().reset()

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Raises: ConfigError where the ranks are not to speak to one another: nobody could tell when all have written."""
        if not kwargs.get("use_collectives", True):
            raise ConfigError("use_collectives: expected True, so that a checkpoint is there once all ranks' files are")
        super().set_up_storage_writer(is_coordinator, *args, **kwargs)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Raises: FileExistsError where there is one already and `overwrite` is not set."""
        if not self.overwrite:
            self._expect_none("remove it, or set overwrite")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """One that is there is none from now on: no marker may ever stand before files of two saves."""
        if self.overwrite:
            self.files.clear()
        return super().prepare_global_plan(plans)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Raises: as save, or as save_checkpoint."""
        results: list[WriteResult] = []
        for number, file in enumerate(lay_out(plan.items, planner, self.serialization_format)):
            name = f"{plan.storage_data.prefix}{number}{file.end}"
            results += _results(name, file, self._put(name, file))
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """The checkpoint becomes visible. Raises: FileExistsError where another save has finished meanwhile."""
        self._expect_none("another save has finished since this one began, and may have removed files of this one")
        if _VERSION is not None:
            metadata.version = _VERSION
        written = {result.index: cast(_Written, result.storage_data) for some in results for result in some}
        metadata.storage_data = {index: one.info for index, one in written.items()}
        metadata.storage_meta = self.storage_meta()
        setattr(metadata, _DIGESTS, {one.info.relative_path: one.digest for one in written.values()})
        body = pickle.dumps(metadata)
        self.files.put(MARKER, len(body), lambda sink: sink.write(body))

    @property
    def checkpoint_id(self) -> str:
        """For messages and the metadata."""
        return str(self.files)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | PathLike[str]) -> bool:
        """Never: torch takes its own writer where none is named."""
        return False

    def _expect_none(self, otherwise: str) -> None:
        if found := self.files.found():
            raise FileExistsError(
                f"{self.files}: expected no checkpoint there, found {', '.join(sorted(found))}: {otherwise}"
            )

    def _put(self, name: str, file: File) -> bytes:
        digests: list[bytes] = []
        self.files.put(name, file.length, lambda sink: digests.append(file.write(sink)))
        return digests[0]


class DCPReader(FileSystemReader):
    """For dcp.load, of what DCPWriter or torch's own writer wrote, packed or not. The marker is a pickle, as it is there."""

    def __init__(self, target: Named, *, step: int | None = None, endpoint: str | None = None) -> None:
        """target, step, endpoint: as for DCPWriter. Raises: ConfigError."""
        self.files = shard_files(target, step, Level.BALANCED, endpoint)
        self._tensors: dict[str, Any] = {}
        self._digests: dict[str, bytes] = {}
        super().__init__(str(self.files))
        self.fs = cast(Any, _Reading(self))

    def reset(self, checkpoint_id: str | PathLike[str] | None = None) -> None:
        """See DCPWriter. Raises: ConfigError."""
        if checkpoint_id is not None:
            self.files = self.files.at(checkpoint_id)
        super().reset()

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Raises: ConfigError on a step in one file, also where shards are left beside it; as load, or as load_checkpoint."""
        if ONE_FILE in self.files.found():
            raise ConfigError(
                f"{self.files}: expected a sharded checkpoint, found one file: load it with load_checkpoint"
            )
        return super().read_metadata(*args, **kwargs)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Keeps what the tensors are, and the files."""
        self._tensors = metadata.state_dict_metadata
        self._digests = getattr(metadata, _DIGESTS, {})
        super().set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Raises: ChecksumMismatch where a file is another save's than the marker; as load, or as load_checkpoint."""
        files: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            files.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, items in files.items():
            with self.files.open(name) as (body, digest):
                self._check(name, body, digest)
                for item in sorted(items, key=lambda item: self.storage_data[item.storage_index].offset):
                    self._read(body, item, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @property
    def checkpoint_id(self) -> str:
        """For messages."""
        return str(self.files)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | PathLike[str]) -> bool:
        """Never: see DCPWriter."""
        return False

    def _check(self, name: str, body: BinaryIO, digest: bytes | None) -> None:
        expected = self._digests.get(name)
        if expected is None:  # torch's own writer notes none
            return
        if digest is None:
            digest = _digest_of(body)
        if digest != expected:
            raise ChecksumMismatch(
                f"{self.files}: {name}: expected the file that {MARKER} was written with (XXH3-128 {expected.hex()}), "
                f"found another one ({digest.hex()})"
            )

    def _read(self, body: BinaryIO, item: ReadItem, planner: LoadPlanner) -> None:
        where = self.storage_data[item.storage_index]
        if where.relative_path.endswith(SAFETENSORS):
            tensor = self._plain_tensor(body, item)
        else:
            piece = self._slice_file(body, where)
            stream = self.transforms.transform_load_stream(item, where.transform_descriptors or (), piece)
            if item.type is LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(stream.read(-1)))
                return
            seekable = stream if stream.seekable() else io.BytesIO(stream.read(-1))
            tensor = torch.load(seekable, map_location="cpu", weights_only=True)
            self._check_tensor(item, tensor)
        tensor = narrow_tensor_by_index(tensor, item.storage_offsets, item.lengths)
        target = planner.resolve_tensor(item).detach()
        if target.size() != tensor.size():
            raise FormatError(f"{item.dest_index.fqn}: expected {target.size()}, found {tensor.size()}")
        target.copy_(tensor)
        planner.commit_tensor(item, target)

    def _plain_tensor(self, body: BinaryIO, item: ReadItem) -> torch.Tensor:
        where = self.storage_data[item.storage_index]
        data = bytearray(where.length)
        body.seek(where.offset)
        if (found := cast(Any, body).readinto(data)) != where.length:
            raise FormatError(
                f"{self.files}: {where.relative_path}: expected {where.length} bytes at {where.offset}, found {found}"
            )
        dtype, shape = self._stored(item.storage_index)
        tensor = torch.frombuffer(data, dtype=torch.uint8).view(dtype) if data else torch.empty(0, dtype=dtype)
        return tensor.view(shape)

    def _check_tensor(self, item: ReadItem, tensor: torch.Tensor) -> None:
        """The tensor of a file without a digest is at least of the type and shape that the marker says."""
        expected = self._stored(item.storage_index)
        if (tensor.dtype, tensor.size()) != expected:
            where = self.storage_data[item.storage_index]
            raise FormatError(
                f"{self.files}: {where.relative_path}: {item.storage_index.fqn}: expected {expected[0]} of "
                f"{list(expected[1])} as {MARKER} says, found {tensor.dtype} of {list(tensor.size())}"
            )

    def _stored(self, index: MetadataIndex) -> tuple[torch.dtype, torch.Size]:
        about = self._tensors[index.fqn]
        assert isinstance(about, TensorStorageMetadata)
        sizes = [chunk.sizes for chunk in about.chunks if index.offset is None or chunk.offsets == index.offset]
        return about.properties.dtype, sizes[0]


class _Reading:
    """What torch's reader asks of its file system, from ShardFiles: names take the place of paths."""

    def __init__(self, reader: DCPReader) -> None:
        self._reader = reader

    @contextmanager
    def create_stream(self, path: str, mode: str) -> Iterator[BinaryIO]:
        """The body of a file of that name."""
        with self._reader.files.open(path) as (body, _):
            yield body

    def concat_path(self, path: object, suffix: str) -> str:
        """The name."""
        return suffix


@dataclass(frozen=True, slots=True)
class _Written:
    """Of one item, on its way from a rank to the one that writes the marker. info: torch's; digest: of the whole file."""

    info: filesystem._StorageInfo
    digest: bytes


def _results(name: str, file: File, digest: bytes) -> Iterator[WriteResult]:
    at = 0
    for piece in file.pieces:
        if piece.item is not None:
            written = _Written(filesystem._StorageInfo(name, at, piece.length), digest)
            yield WriteResult(index=piece.item.index, size_in_bytes=piece.length, storage_data=written)
        at += piece.length


def _digest_of(body: BinaryIO) -> bytes:
    """Of a file that is stored as it is: read as a whole."""
    digest = xxhash.xxh3_128()
    body.seek(0)
    while chunk := body.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.digest()
