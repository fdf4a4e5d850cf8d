"""A whole body: one file of a known format behind another. So torch.distributed.checkpoint and np.save write them.

A .distcp is one archive a tensor; or, with SAFETENSORS serialization, archives and then one safetensors file.
"""

from __future__ import annotations

from typing import Final

from ..limits import MAX_SAFETENSORS_HEADER_BYTES
from . import gguf, npy, zip_entry
from .elements_run import read_elements
from .gguf import read_gguf
from .npy import read_npy
from .safetensors import read_safetensors
from .stream import Parser, Step, Stream
from .torch_legacy import read_legacy
from .zip_archive import read_archive

_PICKLE: Final = 0x80
_JSON_STARTS: Final = b"{ \t\r\n"


def read_body(stream: Stream) -> Step[None]:
    """Take files until one does not end, or what follows is none; then what content tells."""
    goes_on = True
    while goes_on:
        stream.charge()
        parser = yield from _next_parser(stream)
        goes_on = parser is not None and (yield from parser(stream))
    yield from stream.skip_found()
    yield from read_elements(stream)


def _next_parser(stream: Stream) -> Step[Parser | None]:
    head = yield from stream.peek(2)
    if head[0] == _PICKLE and 2 <= head[1] <= 5:
        return read_legacy
    head = yield from stream.peek(9)
    for magic, parser in ((zip_entry.LOCAL, read_archive), (npy.MAGIC, read_npy), (gguf.MAGIC, read_gguf)):
        if head.startswith(magic):
            return parser
    length = int.from_bytes(head[:8], "little")
    if 2 <= length <= MAX_SAFETENSORS_HEADER_BYTES and head[8] in _JSON_STARTS:
        return read_safetensors
    return None
