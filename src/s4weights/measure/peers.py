"""Other lossless compressors, as far as they are installed, each with one thread and the settings that suit it.

None of them is a dependency. They may have no types, so they are imported by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import zstandard

from s4weights.codec.types import ElementType

from .candidate import COPY, DECODE, ENCODE, Maker, Step, timed_each
from .zipnn_peer import ZIPNN_TYPES, ZipnnPeer

ZSTD_LEVEL: Final = 1
PEERS: Final = ("zipnn", "openzl", "pcodec", "zstd", "blosc2")

# What pcodec takes a type for: it has no bf16.
_DTYPES: Final = {
    ElementType.BF16: "<u2",
    ElementType.F16: "<f2",
    ElementType.F32: "<f4",
    ElementType.F64: "<f8",
    ElementType.I16: "<i2",
    ElementType.U16: "<u2",
    ElementType.I32: "<i4",
    ElementType.U32: "<u4",
    ElementType.I64: "<i8",
    ElementType.U64: "<u8",
}
_DECONSTRUCT: Final = {
    ElementType.BF16: "BFloat16Deconstruct",
    ElementType.F16: "Float16Deconstruct",
    ElementType.F32: "Float32Deconstruct",
}


class Peer:
    """A compressor that takes a block and gives bytes. encode, decode: exact inverses."""

    def __init__(
        self,
        blocks: Sequence[bytes],
        encode: Callable[[bytes], bytes],
        decode: Callable[[bytes], Any],
    ) -> None:
        self._blocks = blocks
        self._encode = encode
        self._decode = decode
        self._stored = [encode(block) for block in blocks]

    @property
    def steps(self) -> dict[str, Step]:
        """See Candidate."""
        return {
            ENCODE: lambda: timed_each(lambda block: len(self._encode(block)), self._blocks),
            DECODE: lambda: timed_each(lambda stored: len(self._decode(stored)), self._stored),
        }

    def stored_bytes(self) -> int:
        """See Candidate."""
        return sum(map(len, self._stored))

    def is_identical(self) -> bool:
        """See Candidate."""
        pairs = zip(self._blocks, self._stored, strict=True)
        return all(np.frombuffer(self._decode(stored), np.uint8).tobytes() == block for block, stored in pairs)

    def close(self) -> None:
        """See Candidate."""


class Memcpy:
    """What any of them is held against: the blocks copied to where they were copied before."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        self._pairs = [(np.frombuffer(block, np.uint8), np.array(np.frombuffer(block, np.uint8))) for block in blocks]

    @property
    def steps(self) -> dict[str, Step]:
        """See Candidate."""
        return {COPY: lambda: timed_each(lambda pair: np.copyto(pair[1], pair[0]), self._pairs)}

    def stored_bytes(self) -> int:
        """See Candidate."""
        return sum(source.nbytes for source, _ in self._pairs)

    def is_identical(self) -> bool:
        """See Candidate."""
        return all(np.array_equal(source, target) for source, target in self._pairs)

    def close(self) -> None:
        """See Candidate."""


def open_peers(
    element: ElementType, blocks: Sequence[bytes], wanted: Collection[str] = PEERS
) -> Iterator[tuple[str, Maker]]:
    """Name and maker of every peer that is wanted and installed and knows the type."""
    there = set(wanted) - set(missing_peers(wanted))
    if "zipnn" in there and element in ZIPNN_TYPES:
        yield "zipnn", lambda: ZipnnPeer(element, blocks)
    if "openzl" in there:
        how = " deconstruct + FSE" if element in _DECONSTRUCT else ""
        yield f"openzl{how}", lambda: _openzl(element, blocks)
    if "pcodec" in there and element in _DTYPES:
        yield "pcodec", lambda: _pcodec(element, blocks)
    if "zstd" in there:
        yield f"zstd-{ZSTD_LEVEL}", lambda: _zstd(blocks)
        if element.width > 1:
            yield f"zstd-{ZSTD_LEVEL} + byte shuffle", lambda: _shuffled_zstd(element.width, blocks)
    if "blosc2" in there:
        how = "shuffle + " if element.width > 1 else ""
        yield f"blosc2 {how}zstd-{ZSTD_LEVEL}", lambda: _blosc2(element.width, blocks)


def missing_peers(wanted: Collection[str] = PEERS) -> list[str]:
    """Those that would be measured if they were installed."""
    return [name for name in wanted if name != "zstd" and find_spec(name) is None]


def _zstd(blocks: Sequence[bytes]) -> Peer:
    compressor, decompressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL), zstandard.ZstdDecompressor()
    return Peer(blocks, compressor.compress, decompressor.decompress)


def _shuffled_zstd(width: int, blocks: Sequence[bytes]) -> Peer:
    """Byte k of every element, then zstd; the shuffle's time counts."""
    compressor, decompressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL), zstandard.ZstdDecompressor()
    largest = max(map(len, blocks), default=0)
    planes, words = np.empty(largest, np.uint8), np.empty(largest, np.uint8)

    def encode(block: bytes) -> bytes:
        shuffled = planes[: len(block)].reshape(width, -1)
        np.copyto(shuffled, np.frombuffer(block, np.uint8).reshape(-1, width).T)
        return compressor.compress(shuffled.reshape(-1).data)

    def decode(stored: bytes) -> Any:
        shuffled = np.frombuffer(decompressor.decompress(stored), np.uint8).reshape(width, -1)
        body = words[: shuffled.size]
        np.copyto(body.reshape(-1, width), shuffled.T)
        return body

    return Peer(blocks, encode, decode)


def _openzl(element: ElementType, blocks: Sequence[bytes]) -> Peer:
    """Floats: exponents apart and entropy coded, the rest as it is; other types: what it chooses itself."""
    zl = import_module("openzl.ext")
    compressor = zl.Compressor()
    compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
    if element in _DECONSTRUCT:
        node = getattr(zl.nodes, _DECONSTRUCT[element])()
        rest, exponents = zl.graphs.Store()(compressor), zl.graphs.Fse()(compressor)
        graph = node(compressor, sign_frac=rest, exponent=exponents)
    else:
        graph = zl.graphs.Compress()(compressor)
    compressor.select_starting_graph(graph)
    writing, reading = zl.CCtx(), zl.DCtx()
    writing.ref_compressor(compressor)
    # Otherwise it forgets the compressor after one block.
    writing.set_parameter(zl.CParam.StickyParameters, 1)
    dtype = f"<u{element.width}"

    def encode(block: bytes) -> bytes:
        stored: bytes = writing.compress([zl.Input(zl.Type.Numeric, np.frombuffer(block, dtype))])
        return stored

    def decode(stored: bytes) -> Any:
        return reading.decompress(stored)[0].content.as_nparray()

    return Peer(blocks, encode, decode)


def _pcodec(element: ElementType, blocks: Sequence[bytes]) -> Peer:
    pcodec = import_module("pcodec")
    config = pcodec.ChunkConfig(compression_level=pcodec.DEFAULT_COMPRESSION_LEVEL)
    dtype = np.dtype(_DTYPES[element])
    # The length of a block is not in its own stream's head: the first block is the largest, the last may be shorter.
    buffer = np.empty(max(map(len, blocks), default=0) // dtype.itemsize, dtype)

    def encode(block: bytes) -> bytes:
        stored: bytes = pcodec.standalone.simple_compress(np.frombuffer(block, dtype), config)
        return stored

    def decode(stored: bytes) -> Any:
        done = pcodec.standalone.simple_decompress_into(stored, buffer)
        return buffer[: done.n_processed]

    return Peer(blocks, encode, decode)


def _blosc2(width: int, blocks: Sequence[bytes]) -> Peer:
    blosc2 = import_module("blosc2")
    blosc2.set_nthreads(1)
    settings = {
        "typesize": width,
        "codec": blosc2.Codec.ZSTD,
        "clevel": ZSTD_LEVEL,
        "filters": [blosc2.Filter.SHUFFLE if width > 1 else blosc2.Filter.NOFILTER],
        "nthreads": 1,
    }
    buffer = bytearray(max(map(len, blocks), default=0))

    def encode(block: bytes) -> bytes:
        stored: bytes = blosc2.compress2(block, **settings)
        return stored

    def decode(stored: bytes) -> Any:
        size, _, _ = blosc2.get_cbuffer_sizes(stored)
        body = memoryview(buffer)[:size]
        blosc2.decompress2(stored, dst=body)
        return body

    return Peer(blocks, encode, decode)
