"""torch.distributed.checkpoint's writer and reader on containers.

    write:  plan of a rank -> files (dcp_layout.py) -> containers in a folder, or in a step of a run (dcp_files.py)
    read:   marker -> storage infos -> ranges of bodies

The marker, `.metadata`, is torch's own, and so is what TORCH_SAVE writes: torch's own reader takes folders that were unpacked.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any, BinaryIO, Final, cast

import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter, SerializationFormat
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from s4weights.codec.errors import FormatError
from s4weights.codec.types import Level

from .dcp_files import shard_files
from .dcp_layout import SAFETENSORS, File, lay_out
from .steps import MARKER
from .targets import Named, parse_level

_VERSION: Final = getattr(filesystem, "CURRENT_DCP_VERSION", None)


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

        overwrite: whether one that is there may go, which it does before the new one is whole. level, endpoint: as for save.
        Raises: ConfigError.
        """
        self.files = shard_files(target, step, parse_level(level), endpoint)
        super().__init__(str(self.files), overwrite=overwrite, serialization_format=serialization_format)

    def reset(self, checkpoint_id: str | PathLike[str] | None = None) -> None:
        """checkpoint_id: another folder; of a run, another step. Raises: ConfigError."""
        if checkpoint_id is not None:
            self.files = self.files.at(checkpoint_id)
        super().reset()

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Raises: FileExistsError where there is one already and `overwrite` is not set."""
        if not self.overwrite and self.files.has(self._marker(0)):
            raise FileExistsError(f"{self.files}: expected no checkpoint there, found one: remove it, or set overwrite")
        if self.rank is not None and not self.use_collectives:
            plan = replace(plan, storage_data=filesystem._StoragePrefix(f"__{self.rank}_"))
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """One that is there is none from now on: no marker may ever stand before files of two saves."""
        if self.overwrite:
            self.files.remove(self._marker(self.rank))
        return super().prepare_global_plan(plans)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Raises: as save, or as save_checkpoint."""
        results: list[WriteResult] = []
        for number, file in enumerate(lay_out(plan.items, planner, self.serialization_format)):
            name = f"{plan.storage_data.prefix}{number}{file.end}"
            self.files.put(name, file.length, file.write)
            results += _results(name, file)
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """The checkpoint becomes visible."""
        if _VERSION is not None:
            metadata.version = _VERSION
        metadata.storage_data = {result.index: result.storage_data for some in results for result in some}
        metadata.storage_meta = self.storage_meta()
        body = pickle.dumps(metadata)
        self.files.put(self._marker(self.rank), len(body), lambda sink: sink.write(body))

    @property
    def checkpoint_id(self) -> str:
        """For messages and the metadata."""
        return str(self.files)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | PathLike[str]) -> bool:
        """Never: torch takes its own writer where none is named."""
        return False

    def _marker(self, rank: int | None) -> str:
        return MARKER if self.use_collectives or rank is None else f"__{rank}{MARKER}"


class DCPReader(FileSystemReader):
    """For dcp.load, of what DCPWriter or torch's own writer wrote, packed or not. The marker is a pickle, as it is there."""

    def __init__(self, target: Named, *, step: int | None = None, endpoint: str | None = None) -> None:
        """target, step, endpoint: as for DCPWriter. Raises: ConfigError."""
        self.files = shard_files(target, step, Level.BALANCED, endpoint)
        self._tensors: dict[str, Any] = {}
        super().__init__(str(self.files))
        self.fs = cast(Any, _Reading(self))

    def reset(self, checkpoint_id: str | PathLike[str] | None = None) -> None:
        """See DCPWriter. Raises: ConfigError."""
        if checkpoint_id is not None:
            self.files = self.files.at(checkpoint_id)
        super().reset()

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Keeps what the tensors are."""
        self._tensors = metadata.state_dict_metadata
        super().set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Raises: as load, or as load_checkpoint."""
        raw: dict[str, list[ReadItem]] = {}
        archived: list[ReadItem] = []
        for item in plan.items:
            name = self.storage_data[item.storage_index].relative_path
            if name.endswith(SAFETENSORS):
                raw.setdefault(name, []).append(item)
            else:
                archived.append(item)
        for name, items in raw.items():
            with self.files.open(name) as body:
                for item in sorted(items, key=lambda item: self.storage_data[item.storage_index].offset):
                    self._read(body, item, planner)
        return super().read_data(replace(plan, items=archived), planner)

    @property
    def checkpoint_id(self) -> str:
        """For messages."""
        return str(self.files)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | PathLike[str]) -> bool:
        """Never: see DCPWriter."""
        return False

    def _read(self, body: BinaryIO, item: ReadItem, planner: LoadPlanner) -> None:
        where = self.storage_data[item.storage_index]
        data = bytearray(where.length)
        body.seek(where.offset)
        if (found := cast(Any, body).readinto(data)) != where.length:
            raise FormatError(
                f"{self.files}: {where.relative_path}: expected {where.length} bytes at {where.offset}, found {found}"
            )
        dtype, shape = self._stored(item.storage_index)
        tensor = torch.frombuffer(data, dtype=torch.uint8).view(dtype) if data else torch.empty(0, dtype=dtype)
        tensor = narrow_tensor_by_index(tensor.view(shape), item.storage_offsets, item.lengths)
        target = planner.resolve_tensor(item).detach()
        if target.size() != tensor.size():
            raise FormatError(f"{item.dest_index.fqn}: expected {target.size()}, found {tensor.size()}")
        target.copy_(tensor)
        planner.commit_tensor(item, target)

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
        with self._reader.files.open(path) as body:
            yield body

    def concat_path(self, path: object, suffix: str) -> str:
        """The name."""
        return suffix


def _results(name: str, file: File) -> Iterator[WriteResult]:
    at = 0
    for piece in file.pieces:
        if piece.item is not None:
            info = filesystem._StorageInfo(name, at, piece.length)
            yield WriteResult(index=piece.item.index, size_in_bytes=piece.length, storage_data=info)
        at += piece.length
