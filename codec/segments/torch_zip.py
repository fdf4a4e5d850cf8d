"""torch.save's zip, front to back: data.pkl names the storages, each local header says where one begins.

A body may hold several, one behind another (a .distcp of torch.distributed.checkpoint does).
Entries are stored, their sizes in the local headers are mostly 0 (a data descriptor follows), so a storage's length comes
from data.pkl and is then held against the headers. Where a prediction fails, the rest is untyped.
Source: PyTorch's torch/serialization.py and caffe2/serialize, seen by running torch 2.13; APPNOTE.TXT of the zip format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from ..types import ElementType, Segment
from .pickle_ops import PickleFault, PickleReader
from .pickle_symbols import NamedStorage, find_storages
from .tiling import Tiling

_LOCAL: Final = b"PK\x03\x04"
_CENTRAL: Final = b"PK\x01\x02"
_END64: Final = b"PK\x06\x06"
_LOCATOR64: Final = b"PK\x06\x07"
_END: Final = b"PK\x05\x06"
_FIXED: Final = struct.Struct("<4sHHHHHIIIHH")
_STORED: Final = 0
# A record of the central directory without its name, extra field and comment.
_DIRECTORY_FIXED_BYTES: Final = 46
# Between two entries lie a data descriptor (16 or 24 bytes) and nothing else.
_GAP_BYTES: Final = 32
# Records such as `version` hold a line; their sizes are unknown beforehand and found by what follows them.
_SMALL_RECORD_BYTES: Final = 4 << 10

_UNKNOWN_SIZES: Final = (0, 0xFFFFFFFF)

# Of a storage: the type of its elements, and how many lie in what torch counts as one.
_STORAGES: Final = {
    "BFloat16Storage": (ElementType.BF16, 1),
    "HalfStorage": (ElementType.F16, 1),
    "FloatStorage": (ElementType.F32, 1),
    "DoubleStorage": (ElementType.F64, 1),
    "CharStorage": (ElementType.I8, 1),
    "ByteStorage": (ElementType.U8, 1),
    "ShortStorage": (ElementType.I16, 1),
    "IntStorage": (ElementType.I32, 1),
    "LongStorage": (ElementType.I64, 1),
    "BoolStorage": (ElementType.BOOL, 1),
    # A complex number is two floats: their planes are those of floats.
    "ComplexFloatStorage": (ElementType.F32, 2),
    "ComplexDoubleStorage": (ElementType.F64, 2),
    "QInt8Storage": (ElementType.I8, 1),
    "QUInt8Storage": (ElementType.U8, 1),
    "QInt32Storage": (ElementType.I32, 1),
    "UntypedStorage": (ElementType.BYTES, 1),
}
# Of an UntypedStorage: only the tensor says what it holds. A type of one byte that has no name here is U8.
_DTYPES: Final = {
    "float8_e4m3fn": ElementType.F8_E4M3,
    "float8_e5m2": ElementType.F8_E5M2,
    "float8_e8m0fnu": ElementType.F8_E8M0,
    "float8_e4m3fnuz": ElementType.U8,
    "float8_e5m2fnuz": ElementType.U8,
    "float4_e2m1fn_x2": ElementType.U8,
    "uint16": ElementType.U16,
    "uint32": ElementType.U32,
    "uint64": ElementType.U64,
}


class TorchZipSegmenter:
    """A state machine over the stream: `_state` looks at `_data` and says whether it came further."""

    def __init__(self) -> None:
        self._tiling = Tiling()
        self._data = bytearray()
        self._at = 0  # logical offset of _data
        self._skip = 0  # bytes of an entry that are still to come
        self._state: Callable[[], bool] | None = self._local_header
        self._root: bytes | None = None
        self._pickle = PickleReader()
        self._storages: dict[str, NamedStorage] = {}
        self._big_endian = False
        self._record = b""

    def feed(self, data: memoryview) -> list[Segment]:
        """See Segmenter."""
        self._tiling.fed += len(data)
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        self._at += skipped
        if self._state is not None:
            self._data += data[skipped:]
            self._run()
        return self._tiling.take()

    def _run(self) -> None:
        while self._state is not None and self._state():
            pass
        if self._state is None:
            self._data.clear()

    def _advance(self, size: int) -> None:
        """Move on; what has not come yet is skipped when it comes."""
        here = min(size, len(self._data))
        del self._data[:here]
        self._skip = size - here
        self._at += here

    def _give_up(self) -> bool:
        self._state = None
        return False

    def _local_header(self) -> bool:
        if len(self._data) < _FIXED.size:
            return False
        magic, _, _, method, _, _, _, stored, _, name_bytes, extra_bytes = _FIXED.unpack_from(self._data)
        header_bytes = _FIXED.size + name_bytes + extra_bytes
        if magic != _LOCAL or method != _STORED:
            return self._give_up()
        if len(self._data) < header_bytes:
            return False
        root, _, record = bytes(self._data[_FIXED.size : _FIXED.size + name_bytes]).partition(b"/")
        if self._root is None:
            self._root = root
        if root != self._root:
            return self._give_up()
        self._advance(header_bytes)
        return self._open(record, stored)

    def _open(self, record: bytes, stored: int) -> bool:
        """The entry's data begins here. stored: its size, or 0 or 2^32 - 1 where the header does not say."""
        self._record = record
        if record == b"data.pkl":
            self._state = self._read_pickle
            return True
        if not record.startswith(b"data/"):
            if stored not in _UNKNOWN_SIZES and record != b"byteorder":
                return self._leave(stored)
            self._state = self._small_record
            return True
        storage = self._storages.get(record[5:].decode("utf-8", "replace"))
        if storage is None:
            return self._give_up()
        return self._open_storage(storage, stored)

    def _open_storage(self, named: NamedStorage, stored: int) -> bool:
        known = _STORAGES.get(named.storage.storage_type)
        if known is None:
            return self._give_up()  # its length is not known either
        element, count = known
        size = named.storage.numel * element.width * count
        if stored != size and stored not in _UNKNOWN_SIZES:
            return self._give_up()
        if named.dtype is not None and element is ElementType.BYTES:
            element = _DTYPES.get(named.dtype, element)
        if element is not ElementType.BYTES and not (self._big_endian and element.width > 1):
            name = named.name or f"data/{named.storage.key}"
            self._tiling.add(self._at, size, element, name, named.shape)
        return self._leave(size)

    def _leave(self, size: int) -> bool:
        """The entry's data ends after size bytes."""
        self._advance(size)
        self._state = self._gap
        return self._skip == 0

    def _read_pickle(self) -> bool:
        try:
            self._pickle.feed(memoryview(bytes(self._data)))
        except PickleFault:
            return self._give_up()
        if not self._pickle.done:
            self._at += len(self._data)
            self._data.clear()
            return False
        # What was fed beyond STOP belongs to the descriptor behind the pickle.
        beyond = self._pickle.beyond
        self._at += len(self._data) - beyond
        del self._data[: len(self._data) - beyond]
        self._storages = {named.storage.key: named for named in find_storages(self._pickle.result)}
        self._pickle = PickleReader()
        self._state = self._gap
        return True

    def _gap(self) -> bool:
        """Find the next entry: right here, or behind a data descriptor."""
        window = bytes(self._data[: _GAP_BYTES + len(_LOCAL)])
        found = window.find(_LOCAL)
        central = window.find(_CENTRAL)
        if found < 0 and central < 0:
            return self._give_up() if len(window) == _GAP_BYTES + len(_LOCAL) else False
        return self._next_entry(found, central)

    def _next_entry(self, found: int, central: int) -> bool:
        """Go to the next local header, or to the central directory where that comes first; -1: there is none."""
        is_local = central < 0 or 0 <= found < central
        self._advance(found if is_local else central)
        self._state = self._local_header if is_local else self._directory
        return True

    def _small_record(self) -> bool:
        window = bytes(self._data[: _SMALL_RECORD_BYTES + len(_LOCAL)])
        found, central = window.find(_LOCAL), window.find(_CENTRAL)
        if found < 0 and central < 0:
            return self._give_up() if len(window) == _SMALL_RECORD_BYTES + len(_LOCAL) else False
        if self._record == b"byteorder":
            self._big_endian = window.startswith(b"big")
        return self._next_entry(found, central)

    def _directory(self) -> bool:
        """Step over the central directory and what ends it; behind it another archive may begin."""
        size = _directory_record_bytes(bytes(self._data[:_DIRECTORY_FIXED_BYTES]))
        if size is None:
            return self._give_up() if len(self._data) >= _DIRECTORY_FIXED_BYTES else False
        if self._data.startswith(_END):
            self._root, self._storages, self._big_endian = None, {}, False
            self._state = self._local_header
        self._advance(size)
        return True


def _directory_record_bytes(head: bytes) -> int | None:
    """Length of a record of the central directory; None where head is too short to say, or is none."""
    if head.startswith(_CENTRAL) and len(head) >= _DIRECTORY_FIXED_BYTES:
        name_bytes, extra_bytes, comment_bytes = struct.unpack_from("<HHH", head, 28)
        return _DIRECTORY_FIXED_BYTES + int(name_bytes) + int(extra_bytes) + int(comment_bytes)
    if head.startswith(_END64) and len(head) >= 12:
        return 12 + int.from_bytes(head[4:12], "little")
    if head.startswith(_LOCATOR64):
        return 20
    if head.startswith(_END) and len(head) >= 22:
        return 22 + int.from_bytes(head[20:22], "little")
    return None
