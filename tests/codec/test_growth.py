"""Bodies that do not gain: never more than the header and the index of docs/format.md above their own bytes."""

from __future__ import annotations

import io
import zipfile
from functools import cache

import numpy as np
import pytest
import zstandard

from s4weights.codec.container import FRAME_HEADER_BYTES, HEADER_BYTES, INDEX_HEADER_BYTES, TRAILER_BYTES
from s4weights.codec.decode import read_tail
from s4weights.codec.limits import FRAME_BYTES
from s4weights.codec.types import Level
from tests.codec.samples import pack, unpack

NOISE = np.random.default_rng(0).bytes(2 * FRAME_BYTES + 12_345)
WORDS = np.random.default_rng(1).choice(b"never lose a checkpoint, never show a wrong byte".split(), 200_000)
TEXT = b" ".join(WORDS.tolist())


def zip_file(method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for number in range(5):
            archive.writestr(f"notes/{number}.txt", TEXT[number * 1_000 :])
        archive.writestr("noise.bin", NOISE[:300_000])
    return buffer.getvalue()


BODIES = {
    "random": lambda: NOISE,
    "one byte": lambda: b"x",
    "zeros": lambda: bytes(2 * FRAME_BYTES + 1),
    "text": lambda: TEXT,
    "deflated zip": lambda: zip_file(zipfile.ZIP_DEFLATED),
    "stored zip": lambda: zip_file(zipfile.ZIP_STORED),
    "zstd": lambda: zstandard.ZstdCompressor(level=9).compress(TEXT + NOISE[:500_000]),
    "container": lambda: pack(TEXT + NOISE[:500_000])[0],
    "compressed npz": lambda: npz(),
    "noise called bf16": lambda: called(b"BF16", NOISE),
    "noise called fp32": lambda: called(b"F32", NOISE),
    "noise called int8": lambda: called(b"I8", NOISE),
}


def npz() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=np.frombuffer(NOISE[:400_000], "<f4"), b=np.zeros(90_000))
    return buffer.getvalue()


def called(dtype: bytes, data: bytes) -> bytes:
    """A safetensors file of one tensor."""
    size = {b"BF16": 2, b"F32": 4, b"I8": 1}[dtype]
    data = data[: len(data) // size * size]
    header = b'{"w":{"dtype":"%b","shape":[%d],"data_offsets":[0,%d]}}' % (dtype, len(data) // size, len(data))
    return len(header).to_bytes(8, "little") + header + data


@cache
def made(name: str) -> bytes:
    return BODIES[name]()


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
@pytest.mark.parametrize("name", BODIES)
def test_a_body_never_grows_by_more_than_headers_and_index(name, level):
    body = made(name)
    container, encoder = pack(body, level=level)
    assert unpack(container) == body
    index = read_tail(container, object_bytes=len(container)).index
    assert index is not None
    for span in index.spans():
        assert span.stored_bytes <= span.logical_bytes + FRAME_HEADER_BYTES
    frames = encoder.totals.frames
    assert frames <= len(body) // FRAME_BYTES + 3
    headers = HEADER_BYTES + frames * FRAME_HEADER_BYTES + INDEX_HEADER_BYTES + TRAILER_BYTES
    # The index's payload: 8 bytes a frame, and what it says of the body.
    assert len(container) <= len(body) + headers + 8 * frames + 400


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
def test_what_repeats_shrinks_at_every_level(level):
    assert len(pack(made("zeros"), level=level)[0]) < 700
    assert len(pack(TEXT, level=level)[0]) < 0.5 * len(TEXT)
