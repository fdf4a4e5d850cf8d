"""What the files of a sharded checkpoint consist of, and how long each piece is, before any of it is written.

TORCH_SAVE: a file a rank, one after another what torch.save writes of each tensor, as torch's own writer does. SAFETENSORS: a
safetensors file a rank with its tensors, and one like the first with all that is no tensor.
"""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.distributed.checkpoint.filesystem import SerializationFormat
from torch.distributed.checkpoint.planner import SavePlanner, WriteItem, WriteItemType

from s4weights.codec.errors import ConfigError, S4WeightsError

from .body_pipe import saved_bytes
from .sinks import CountedSink, Sink, own_faults

ARCHIVES: Final = ".distcp"
SAFETENSORS: Final = ".safetensors"
# Names of the format. Source: safetensors' own README and its `Dtype`.
_DTYPES: Final = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.complex64: "C64",
}
_ALIGNMENT: Final = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """item: what it is of; None: a header. data: the tensor where it lies, or bytes; as_archive: as torch.save writes it."""

    item: WriteItem | None
    data: torch.Tensor | bytes | memoryview
    length: int
    as_archive: bool = False

    def write(self, sink: Sink) -> None:
        """A tensor of another device comes over as a whole; so does one that is part of a larger storage."""
        if not isinstance(self.data, torch.Tensor):
            sink.write(self.data)
            return
        tensor = self.data.cpu()
        if self.as_archive:
            if not _is_all_of_its_storage(tensor):
                tensor = tensor.clone()
            with own_faults(sink) as checked:
                torch.save(tensor, checked)  # type: ignore[arg-type]
        elif tensor.numel():
            sink.write(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)


@dataclass(frozen=True, slots=True)
class File:
    """end: of its name."""

    end: str
    pieces: Sequence[Piece]

    @property
    def length(self) -> int:
        return sum(piece.length for piece in self.pieces)

    def write(self, sink: Sink) -> bytes:
        """Returns the digest of the whole, XXH3-128.

        Raises: S4WeightsError where torch.save writes another length than it was to; the file must not become visible.
        """
        counted = CountedSink(sink)
        expected = 0
        for piece in self.pieces:
            piece.write(counted)
            expected += piece.length
            if counted.written != expected:
                name = piece.item.index.fqn if piece.item is not None else "header"
                raise S4WeightsError(f"{name}: expected to end at byte {expected}, found {counted.written}")
        return counted.digest


def lay_out(items: Sequence[WriteItem], planner: SavePlanner, serialization: SerializationFormat) -> list[File]:
    """The files of one rank; none where it has nothing. Raises: ConfigError on a tensor that safetensors cannot hold."""
    others = [_bytes_piece(item, planner) for item in items if item.type is WriteItemType.BYTE_IO]
    tensors = [(item, _tensor(item, planner)) for item in items if item.type is not WriteItemType.BYTE_IO]
    if serialization is SerializationFormat.TORCH_SAVE:
        archives = [Piece(item, tensor, _archive_bytes(tensor), as_archive=True) for item, tensor in tensors]
        files = [File(ARCHIVES, [*others, *archives])]
    else:
        files = [File(ARCHIVES, others), File(SAFETENSORS, _safetensors(tensors) if tensors else [])]
    return [file for file in files if file.pieces]


def _bytes_piece(item: WriteItem, planner: SavePlanner) -> Piece:
    data = planner.resolve_data(item)
    if not isinstance(data, io.BytesIO):
        raise S4WeightsError(f"{item.index.fqn}: expected bytes from the planner, found {type(data).__name__}")
    view = data.getbuffer()
    return Piece(item, view, len(view))


def _tensor(item: WriteItem, planner: SavePlanner) -> torch.Tensor:
    data = planner.resolve_data(item)
    if not isinstance(data, torch.Tensor):
        raise S4WeightsError(f"{item.index.fqn}: expected a tensor from the planner, found {type(data).__name__}")
    return data.detach().resolve_conj().resolve_neg()


def _archive_bytes(tensor: torch.Tensor) -> int:
    if tensor.device.type == "cpu" and _is_all_of_its_storage(tensor):
        return saved_bytes(tensor)
    # The same but for its values, which are never made: memory that nobody touches.
    return saved_bytes(torch.empty_like(tensor, device="cpu"))


def _is_all_of_its_storage(tensor: torch.Tensor) -> bool:
    return tensor.untyped_storage().size() == tensor.nbytes


def _safetensors(tensors: Sequence[tuple[WriteItem, torch.Tensor]]) -> list[Piece]:
    # The widest first, so that each begins at a multiple of its own width.
    ordered = sorted(tensors, key=lambda one: -one[1].itemsize)
    parts = Counter(item.index.fqn for item, _ in ordered)
    offsets: dict[str, dict[str, Any]] = {}
    rows: dict[str, dict[str, Any]] = {}
    at = 0
    for item, tensor in ordered:
        if tensor.dtype not in _DTYPES:
            raise ConfigError(f"{item.index.fqn}: expected a type that safetensors has, found {tensor.dtype}")
        start = list(item.tensor_data.chunk.offsets) if item.tensor_data is not None else [0] * tensor.dim()
        name = item.index.fqn if parts[item.index.fqn] == 1 else f"{item.index.fqn}@{','.join(map(str, start))}"
        length = math.prod(tensor.shape) * tensor.itemsize
        rows[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + length],
        }
        offsets[name] = {"saved_offsets": start}
        at += length
    # As torch's HuggingFaceStorageWriter has it: its reader finds the place of a shard so.
    about = {"DCP_SHARDING_INFO": json.dumps(offsets), "DCP_VERSION": "1.0", "format": "pt"}
    header = json.dumps({"__metadata__": about, **rows}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    head = len(header).to_bytes(8, "little") + header
    return [
        Piece(None, head, len(head)),
        *(Piece(item, tensor, tensor.numel() * tensor.itemsize) for item, tensor in ordered),
    ]
