"""torch.save before it wrote zips: five pickles, then every storage behind its number of elements.

The pickles: a magic number, the protocol, the system, the object, the storages' keys in the order of their data.
Source: _legacy_save in PyTorch's torch/serialization.py; the numbers are little-endian on every machine.
"""

from __future__ import annotations

from typing import Final

from ..limits import MAX_STORAGES
from ..types import ElementType
from .pickle_ops import PickleFault
from .pickle_stream import read_pickle
from .pickle_symbols import MAX_SIZE
from .storages import NamedStorage, find_storages
from .stream import GiveUp, Step, Stream

_MAGIC: Final = 0x1950A86A20F9469CFC6C
_COUNT_BYTES: Final = 8


def read_legacy(stream: Stream) -> Step[bool]:
    """Take what one torch.save wrote; True where it came to its end."""
    try:
        magic = yield from read_pickle(stream)
        if magic != _MAGIC:
            return False
        yield from read_pickle(stream)
        yield from read_pickle(stream)
        symbols = yield from read_pickle(stream)
        keys = yield from read_pickle(stream)
    except PickleFault:
        return False
    storages = {named.key: named for named in find_storages(symbols)}
    del symbols
    if not isinstance(keys, list) or len(keys) > MAX_STORAGES:
        return False
    for key in keys:
        storage = storages.get(key) if isinstance(key, str) else None
        if storage is None or storage.element is None:
            return False  # where the next one begins is not known
        yield from _read_storage(stream, storage, storage.element)
    return True


def _read_storage(stream: Stream, storage: NamedStorage, element: ElementType) -> Step[None]:
    """The number in front counts what the pickle counts: elements of torch's, or bytes of an UntypedStorage."""
    stream.charge()
    head = yield from stream.read(_COUNT_BYTES)
    count = int.from_bytes(head, "little", signed=True)
    if not 0 <= count < MAX_SIZE:
        raise GiveUp
    length = count * storage.unit_bytes
    if element is not ElementType.BYTES:
        stream.add(stream.at, length, element, storage.name, storage.shape if length == storage.length else None)
    yield from stream.skip(length)
