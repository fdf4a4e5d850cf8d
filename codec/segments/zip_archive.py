"""Zips of tensors, front to back: torch.save, TorchScript and numpy's .npz.

Of torch.save, data.pkl comes first and names every storage: type and length are known before the data. In TorchScript it
comes last, so the types are guessed by content. What is compressed stays bytes; what follows it is found again.
Source: PyTorch's torch/serialization.py and caffe2/serialize, seen by running torch 2.13; numpy's lib/_npyio_impl.py.
"""

from __future__ import annotations

import re
from typing import Final

from ..content import TENSOR_SAMPLE_BYTES, guess_element
from ..types import ElementType
from .elements import big_endian
from .npy import read_array
from .pickle_ops import PickleFault
from .pickle_stream import read_pickle
from .storages import NamedStorage, find_storages
from .stream import Step, Stream
from .zip_entry import END, LOCAL, LOOKAHEAD_BYTES, Entry, read_entry, seek_end, skip_directory_record

# A run of unknown length is announced in blocks, each before its first byte has come: so the last one may reach beyond the
# run. It does so by at most this, or by a 16th of the run.
_FIRST_BLOCK_BYTES: Final = 4 << 10
_BLOCK_SHARE: Final = 16
_MAX_BLOCK_BYTES: Final = 1 << 20
# Entries that hold elements and nothing else.
_TENSOR: Final = re.compile(rb"(data|constants|tensors)/\d+")
# `byteorder` holds "little" or "big".
_ORDER_BYTES: Final = 3


def read_archive(stream: Stream) -> Step[bool]:
    """Take one archive; True where it came to its end."""
    archive = _Archive(stream)
    while True:
        stream.charge()
        magic = yield from stream.peek(4)
        if magic == LOCAL:
            yield from archive.read_entry()
            continue
        record = yield from skip_directory_record(stream)
        if record in (None, END):
            return record is not None


class _Archive:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._root: bytes | None = None
        self._has_root = False
        self._storages: dict[str, NamedStorage] = {}
        self._big_endian = False
        self._guessed = ElementType.BYTES

    def read_entry(self) -> Step[None]:
        """Take an entry, and go on to what follows it."""
        entry = yield from read_entry(self._stream)
        root, slash, record = entry.name.partition(b"/")
        if not self._has_root:
            self._root, self._has_root = (root if slash else None), True
        storage, ended = None, False
        if entry.plain and entry.length != 0:
            record = record if slash and root == self._root else b""
            if record.startswith(b"data/"):
                storage = self._storages.get(record[5:].decode("utf-8", "replace"))
            ended = yield from self._read_data(entry, record, storage)
        if entry.length is not None:
            yield from self._stream.skip_to(entry.start + entry.length)
        if not ended:
            # Where data.pkl was wrong about a length, the descriptor is perhaps already behind.
            yield from seek_end(self._stream, entry, self._root, bare=entry.length is not None or storage is not None)

    def _read_data(self, entry: Entry, record: bytes, storage: NamedStorage | None) -> Step[bool]:
        """Take what is of use in an entry; True where its end was found, and a descriptor taken."""
        if record == b"data.pkl":
            yield from self._read_pickle(entry.length)
        elif record == b"byteorder":
            order = yield from self._stream.peek(_ORDER_BYTES)
            self._big_endian = order == b"big"
        elif storage is not None and storage.element is not None:
            yield from self._read_storage(entry, storage, storage.element)
        elif entry.name.endswith(b".npy"):
            name = entry.name[:-4].decode("utf-8", "replace")
            yield from read_array(self._stream, name, entry.length)
        elif entry.length is not None:
            yield from self._read_unknown(entry, entry.length)
        elif self._is_tensor(entry):
            return (yield from self._read_endless(entry))
        return False

    def _read_pickle(self, length: int | None) -> Step[None]:
        try:
            symbols = yield from read_pickle(self._stream, length)
        except PickleFault:
            return  # the storages' types are guessed
        self._storages = {named.key: named for named in find_storages(symbols)}

    def _read_storage(self, entry: Entry, storage: NamedStorage, element: ElementType) -> Step[None]:
        """A storage that data.pkl names; where the header knows its length, the header is right."""
        length = storage.length if entry.length is None else entry.length
        shape = storage.shape if length == storage.length else None
        if self._big_endian:
            element = big_endian(element)
        name = storage.name or entry.name.partition(b"/")[2].decode("utf-8", "replace")
        if element is not ElementType.BYTES:
            self._stream.add(self._stream.at, length, element, name, shape)
        yield from self._stream.skip(length)

    def _read_unknown(self, entry: Entry, length: int) -> Step[None]:
        """An entry of known length: a sample, then the rest with the type that was guessed."""
        self._begin_guess(entry, min(length, TENSOR_SAMPLE_BYTES))
        sample = yield from self._stream.read(min(length, TENSOR_SAMPLE_BYTES))
        element = self._guess(entry, sample)
        if element is not ElementType.BYTES:
            self._stream.add(self._stream.at, length - len(sample), element, _name_of(entry))

    def _read_endless(self, entry: Entry) -> Step[bool]:
        """A tensor whose length only its end tells: a sample, then blocks. True where the end was found."""
        sample = bytearray()
        until = entry.start + TENSOR_SAMPLE_BYTES
        end = until + LOOKAHEAD_BYTES
        self._begin_guess(entry, end - entry.start)
        if (yield from seek_end(self._stream, entry, self._root, until=until, seen=sample)):
            return True
        element = self._guess(entry, sample)
        if element is ElementType.BYTES:
            return False
        while True:
            share = (end - entry.start) // _BLOCK_SHARE // _FIRST_BLOCK_BYTES * _FIRST_BLOCK_BYTES
            size = min(max(share, _FIRST_BLOCK_BYTES), _MAX_BLOCK_BYTES)
            self._stream.add(end, size, element, _name_of(entry))
            end += size
            if (yield from seek_end(self._stream, entry, self._root, until=end - LOOKAHEAD_BYTES)):
                return True

    def _begin_guess(self, entry: Entry, length: int) -> None:
        """A sample cannot wait until its type is known; of a tensor it is that of the tensor before."""
        if self._is_tensor(entry) and self._guessed is not ElementType.BYTES:
            self._stream.add(entry.start, length, self._guessed, _name_of(entry))

    def _guess(self, entry: Entry, sample: bytes | bytearray) -> ElementType:
        is_tensor = self._is_tensor(entry)
        element = guess_element(sample, is_tensor=is_tensor)
        if is_tensor and len(sample) == TENSOR_SAMPLE_BYTES:
            self._guessed = element
        return element

    def _is_tensor(self, entry: Entry) -> bool:
        return _TENSOR.fullmatch(entry.name.partition(b"/")[2]) is not None


def _name_of(entry: Entry) -> str:
    _, slash, record = entry.name.partition(b"/")
    return (record if slash else entry.name).decode("utf-8", "replace")[:200]
