"""Where an archive of torch.save holds the storages that torch.load is about to ask for, in the order in which it asks."""

from __future__ import annotations

import io
import pickle  # nosec B403 - every global is a stand-in, so nothing is called
import struct
import sys
import zipfile
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import torch

# What rebuilds a tensor without reading its storage; anything else may look at bytes that are not there yet.
_HARMLESS: Final = frozenset(
    {
        ("torch._utils", "_rebuild_tensor"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_parameter"),
        ("collections", "OrderedDict"),
        ("torch", "Size"),
        ("torch.storage", "UntypedStorage"),
    }
)
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
_LOCAL_MAGIC: Final = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class Placed:
    """A storage's bytes in the body."""

    key: str
    start: int
    length: int


def map_storages(body: BinaryIO) -> list[Placed] | None:
    """Those with bytes. None where torch.load may need more than their places, or the archive is another one.

    body: seekable; of a torch.save archive.
    """
    try:
        archive = zipfile.ZipFile(body)
        records = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        byte_order = archive.read(records["byteorder"]) if "byteorder" in records else b"little"
        if byte_order.decode() != sys.byteorder:
            return None
        order = _Order(io.BytesIO(archive.read(records["data.pkl"])))
        order.load()
        return [_place(body, records[f"data/{key}"], key) for key in order.keys if records[f"data/{key}"].file_size]
    except (zipfile.BadZipFile, KeyError, ValueError, _Unknown):
        return None


def _place(body: BinaryIO, info: zipfile.ZipInfo, key: str) -> Placed:
    body.seek(info.header_offset)
    head = body.read(_LOCAL_HEADER.size)
    magic, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(head) if len(head) == _LOCAL_HEADER.size else (b"", 0, 0)
    if magic != _LOCAL_MAGIC or info.compress_type != zipfile.ZIP_STORED:
        raise zipfile.BadZipFile(f"{info.filename}: expected a stored record")
    return Placed(key, info.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes, info.file_size)


class _Unknown(pickle.UnpicklingError):
    """Something that may read a storage."""


class _Anything:
    """In the place of every global, and of what it makes."""

    def __new__(cls, *arguments: Any, **options: Any) -> _Anything:
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


class _Order(pickle.Unpickler):
    """Goes through a pickle as torch.load does, and makes nothing of it but the order of its storages."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.keys: list[str] = []
        self._seen: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        is_type = module == "torch" and (
            name.endswith("Storage") or isinstance(getattr(torch, name, None), torch.dtype)
        )
        if not is_type and (module, name) not in _HARMLESS:
            raise _Unknown(f"{module}.{name}")
        return _Anything

    def persistent_load(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage" or not isinstance(pid[2], str):
            raise _Unknown(f"a persistent id of {pid!r}")
        if pid[2] not in self._seen:
            self._seen.add(pid[2])
            self.keys.append(pid[2])
        return _Anything()
