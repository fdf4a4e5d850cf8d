"""What torch.save writes when it leaves the storages out, and the checksums of these put where they belong.

A storage's record is its local header, a hole, and a descriptor with its CRC-32, which the central directory at the end
repeats; and torch makes an id of all of them. Source: torch.serialization.skip_data; caffe2/serialize/inline_container.cc.
"""

from __future__ import annotations

import pickle  # nosec B403 - only its Pickler, to see what is written
import re
import struct
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, Protocol

import torch

from s4weights.codec.errors import S4WeightsError
from s4weights.codec.types import Buffer

_DESCRIPTOR: Final = b"PK\x07\x08"
_ENTRY: Final = b"PK\x01\x02"
_ENTRY_BYTES: Final = 46
# Of the lengths of name, extra fields and comment in a directory's entry; of its CRC-32.
_LENGTHS: Final = struct.Struct("<28xHHH")
_ENTRY_CRC_AT: Final = 16
_ENTRY_SIZE_AT: Final = 24
_DESCRIPTOR_CRC_AT: Final = 4
# With sizes of 4 bytes, and of 8.
_DESCRIPTOR_SIZES: Final = (16, 24)
# The record of torch's id of the archive: 20 digits for the names, 20 for the CRC-32s.
_ID_NAME: Final = b"/.data/serialization_id"
_DIGITS: Final = 20
# The name of a storage's record, whose local header it ends; as much of a header as holds it.
_DATA_NAME: Final = re.compile(rb"/data/([0-9]+)\Z")
_NAME_BYTES: Final = 64


class Sink(Protocol):
    """Where a body goes, front to back."""

    def write(self, data: Buffer) -> int:
        """Take the next bytes."""
        ...


Fill = Callable[[torch.UntypedStorage], int]
"""Send a storage's bytes to the sink. Returns their CRC-32."""


def save_with_holes(state: object, sink: Sink, fill: Fill) -> None:
    """torch.save, to the byte; each storage is `fill`ed in its place. Raises: S4WeightsError where it does otherwise."""
    storages: dict[str, torch.UntypedStorage] = {}
    writer = _HoleWriter(sink, fill, storages)
    with torch.serialization.skip_data():
        torch.save(state, writer, pickle_module=_recording(storages))  # type: ignore[arg-type]
    writer.end()


def find_storages(state: object) -> list[torch.UntypedStorage] | None:
    """Those of a state, in the order in which they are saved; None where it cannot be saved with holes."""
    found: list[torch.UntypedStorage] = []

    def fill(storage: torch.UntypedStorage) -> int:
        found.append(storage)
        return 0

    try:
        save_with_holes(state, _Nowhere(), fill)
    except (RuntimeError, AttributeError, S4WeightsError):
        # Something that torch cannot skip, such as a quantized tensor; a torch that cannot skip at all.
        return None
    return found


class _Nowhere:
    def write(self, data: Buffer) -> int:
        return memoryview(data).nbytes


class _HoleWriter:
    """The file object that torch writes to: of each record its local header, name, extra fields, data and descriptor."""

    def __init__(self, sink: Sink, fill: Fill, storages: dict[str, torch.UntypedStorage]) -> None:
        self._sink = sink
        self._fill = fill
        self._storages = storages
        # Keys of storages that were filled; the key in the name of the record that was begun last.
        self._filled: set[str] = set()
        self._key: str | None = None
        self._hole_crc: int | None = None
        self._crcs: list[int] = []
        self._fingerprint = 0
        self._is_id = False
        self._id_crc: int | None = None
        self._at = 0
        self._has_directory = False

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        magic = bytes(view[:4])
        if magic == _DESCRIPTOR and len(view) in _DESCRIPTOR_SIZES:
            self._put(self._descriptor(bytes(view)))
        elif self._hole_crc is not None:
            raise S4WeightsError(
                f"torch.save: expected a descriptor at byte {self._at}, found {bytes(view[:16]).hex()}"
            )
        elif magic == _ENTRY:
            self._put(_with_crcs(bytes(view), self._crcs, self._id_crc))
            self._has_directory = True
        elif self._is_id and len(view) == 2 * _DIGITS and bytes(view).isdigit():
            named = bytes(view[:_DIGITS]) + str(self._fingerprint).zfill(_DIGITS).encode()
            self._id_crc = zlib.crc32(named)
            self._put(named)
        else:
            tail = bytes(view[-_NAME_BYTES:])
            self._is_id = self._is_id or tail.endswith(_ID_NAME)
            if (name := _DATA_NAME.search(tail)) is not None:
                self._key = name[1].decode()
            self._put(view)
        return len(view)

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence != 1 or offset <= 0 or self._hole_crc is not None:
            raise S4WeightsError(
                f"torch.save: expected to skip a storage, found seek({offset}, {whence}) at byte {self._at}"
            )
        # By its key, never by its turn: the order is torch's own affair, and another one would swap storages of one size.
        storage = self._storages.get(self._key) if self._key is not None else None
        if storage is None or storage.nbytes() != offset or self._key in self._filled:
            found = "none" if storage is None else str(storage.nbytes())
            raise S4WeightsError(f"torch.save: expected a storage of {offset} bytes at byte {self._at}, found {found}")
        self._filled.add(str(self._key))
        self._hole_crc = self._fill(storage)
        self._at += offset
        return self._at

    def flush(self) -> None:
        """Nothing is kept."""

    def end(self) -> None:
        """Raises: S4WeightsError where something is missing."""
        left = [key for key, storage in self._storages.items() if storage.nbytes() and key not in self._filled]
        if left or self._hole_crc is not None or not self._has_directory:
            raise S4WeightsError(f"torch.save: expected a directory behind {len(self._crcs)} storages, found none")

    def _descriptor(self, data: bytes) -> bytes:
        if self._hole_crc is not None:
            data = _replace(data, _DESCRIPTOR_CRC_AT, self._hole_crc)
            self._crcs.append(self._hole_crc)
            self._hole_crc = None
        elif self._id_crc is not None:
            data = _replace(data, _DESCRIPTOR_CRC_AT, self._id_crc)
        is_empty = not any(data[8:])
        if not is_empty:
            self._fingerprint = _combine(self._fingerprint, int.from_bytes(data[4:8], "little"))
        return data

    def _put(self, data: Buffer) -> None:
        self._sink.write(data)
        self._at += len(data)


def _combine(seed: int, crc: int) -> int:
    """As torch makes the second half of an archive's id out of the CRC-32 of each record that is not empty.

    Source: boost's hash_combine, on 64 bits; compared with what torch writes in tests/api/test_record_holes.py.
    """
    return seed ^ (crc + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & (1 << 64) - 1


def _with_crcs(directory: bytes, crcs: list[int], id_crc: int | None) -> bytes:
    """crcs: of the records named data/N that are not empty, in order. id_crc: of the archive's id."""
    made = bytearray(directory)
    left = list(crcs)
    at = 0
    while made[at : at + 4] == _ENTRY:
        name_bytes, extra_bytes, comment_bytes = _LENGTHS.unpack_from(made, at)
        name = bytes(made[at + _ENTRY_BYTES : at + _ENTRY_BYTES + name_bytes])
        crc = None
        if name.endswith(_ID_NAME):
            crc = id_crc
        elif (
            left
            and name.rpartition(b"/")[0].endswith(b"/data")
            and any(made[at + _ENTRY_SIZE_AT : at + _ENTRY_SIZE_AT + 4])
        ):
            crc = left.pop(0)
        if crc is not None:
            made[at + _ENTRY_CRC_AT : at + _ENTRY_CRC_AT + 4] = crc.to_bytes(4, "little")
        at += _ENTRY_BYTES + name_bytes + extra_bytes + comment_bytes
    if left or at > len(made):
        raise S4WeightsError(f"torch.save: expected a directory with {len(crcs)} storages, found {len(left)} too few")
    return bytes(made)


def _replace(data: bytes, at: int, crc: int) -> bytes:
    return data[:at] + crc.to_bytes(4, "little") + data[at + 4 :]


def _recording(storages: dict[str, torch.UntypedStorage]) -> Any:
    """A pickle module whose Pickler notes which storage torch gives which key."""

    class Recorder(pickle.Pickler):
        def __init_subclass__(cls) -> None:
            given = cls.persistent_id

            def persistent_id(self: Any, obj: Any) -> Any:
                found = given(self, obj)
                if found is not None:
                    untyped = obj._untyped_storage if isinstance(obj, torch.storage.TypedStorage) else obj
                    storages.setdefault(found[2], untyped)
                return found

            cls.persistent_id = persistent_id  # type: ignore[method-assign]

    return SimpleNamespace(Pickler=Recorder, __name__="pickle")
