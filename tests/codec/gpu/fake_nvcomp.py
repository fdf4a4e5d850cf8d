"""The part of nvCOMP's Python module that the product uses, without a GPU: GDeflate by the library's own compressor for the
processor, ANS as bytes of no meaning but to this module. Buffers are numpy's, as torch's on a device are CUDA's.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib.metadata import files
from types import SimpleNamespace

import numpy as np

from s4weights.codec.entropy import gdeflate
from tests.golden.make_gdeflate import Compressor

__version__ = "6.0.0"
BitstreamKind = SimpleNamespace(RAW="raw")


@cache
def compressor() -> Compressor:
    [library] = [one for one in files("nvidia-libnvcomp-cu12") or () if one.name.startswith("libnvcomp_cpu.so")]
    return Compressor(str(library.locate()))


class BatchArray:
    def __init__(self, views: list[np.ndarray]) -> None:
        self.views = views
        self.buffer_sizes = [len(view) for view in views]


def as_array(buffer):
    return np.asarray(buffer)


def as_arrays(buffer, offsets, sizes, cuda_stream=0):
    whole = np.asarray(buffer)
    assert all(offset % 16 == 0 for offset in offsets)
    return BatchArray([whole[at : at + size] for at, size in zip(offsets, sizes, strict=True)])


class Codec:
    def __init__(self, *, algorithm, bitstream_kind, uncomp_chunk_size, **options):
        assert (bitstream_kind, uncomp_chunk_size) == ("raw", 65_536)
        self.algorithm = algorithm

    def get_max_comp_buffer_size(self, array):
        return 65_536 + 1024

    def encode(self, batch, out):
        made = [self._encode(bytes(view)) for view in batch.views]
        return self._put(made, out)

    def decode(self, batch, out):
        try:
            made = [
                zlib.decompress(bytes(view)[4:])
                if self.algorithm == "ANS"
                else gdeflate.decode_page(bytes(view), len(room))
                for view, room in zip(batch.views, out.views, strict=True)
            ]
        except zlib.error as error:
            raise RuntimeError(f"nvcompErrorCannotDecompress: {error}") from None
        return self._put(made, out)

    def _encode(self, page):
        return b"ANS6" + zlib.compress(page, 1) if self.algorithm == "ANS" else compressor().page(page, 1)

    @staticmethod
    def _put(made, out):
        for room, data in zip(out.views, made, strict=True):
            if len(data) > len(room):
                raise ValueError("too small")
            room[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        out.buffer_sizes = [len(data) for data in made]
        return out
