"""A bit that flips in the bucket is a named error or makes no difference, whatever region of a container it lies in."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

import numpy as np
import pytest

from s4weights.codec.container import FRAME_HEADER_BYTES, HEADER_BYTES, INDEX_HEADER_BYTES, TRAILER_BYTES
from s4weights.codec.decode import decode_frame, iter_body, read_tail
from s4weights.codec.engines import NativeEngine
from s4weights.codec.errors import FormatError
from s4weights.codec.types import ElementType, Level
from tests.codec.engines.bodies import moments
from tests.codec.samples import normal, pack, safetensors_raw

ENGINE = NativeEngine()
FLIPS = 300
REGIONS = [
    *("header", "frame headers", "descriptors", "predictor", "float planes", "byte planes"),
    *("index header", "index", "trailer"),
]


def make_body() -> bytes:
    """bf16 weights, fp32 moments with rows and columns, text and integers."""
    second = moments(160, 96, ElementType.F32, products=1)
    header = {
        "weight": {"dtype": "BF16", "shape": [60, 100], "data_offsets": [0, 12_000]},
        "exp_avg_sq": {"dtype": "F32", "shape": [160, 96], "data_offsets": [12_000, 12_000 + len(second)]},
        "steps": {"dtype": "I64", "shape": [700], "data_offsets": [12_000 + len(second), 17_600 + len(second)]},
    }
    return safetensors_raw(header, normal(6_000) + second + np.arange(700).tobytes())


BODY = make_body()
STORED = pack(BODY, level=Level.BALANCED)[0]


def regions() -> Iterator[tuple[str, int, int]]:
    """Name, first byte, first byte behind it; they tile the container."""
    yield "header", 0, HEADER_BYTES
    tail = read_tail(STORED, object_bytes=len(STORED))
    assert tail.index is not None
    for span in tail.index.spans():
        head, end = span.stored_start, span.stored_start + span.stored_bytes
        payload = head + FRAME_HEADER_BYTES
        yield "frame headers", head, payload
        element, predictor, planes = STORED[head + 4], STORED[head + 5], STORED[head + 7]
        at = payload
        if predictor:
            yield "predictor", at, at + 12
            at += 12
            planes += 2
        yield "descriptors", at, at + 8 * planes
        yield "float planes" if 1 <= element <= 4 else "byte planes", at + 8 * planes, end
    index, end = tail.trailer.index_offset, len(STORED) - TRAILER_BYTES
    yield "index header", index, index + INDEX_HEADER_BYTES
    yield "index", index + INDEX_HEADER_BYTES, end
    yield "trailer", end, len(STORED)


def by_index(stored: bytes) -> bytes:
    """As a reader of ranges does: the index says where the frames lie."""
    tail = read_tail(stored, object_bytes=len(stored))
    assert tail.index is not None
    frames = [(one, stored[one.stored_start : one.stored_start + one.stored_bytes]) for one in tail.index.spans()]
    return b"".join(decode_frame(frame, ENGINE, expected=one) for one, frame in frames)


def in_order(stored: bytes) -> bytes:
    """As a reader of the whole does, front to back."""
    return b"".join(iter_body(io.BytesIO(stored), ENGINE))


def test_the_regions_tile_a_container_and_each_is_there():
    found = list(regions())
    assert [first for _, first, _ in found] == [0, *(end for _, _, end in found[:-1])]
    assert found[-1][2] == len(STORED)
    assert {name for name, _, _ in found} == set(REGIONS)
    assert by_index(STORED) == in_order(STORED) == BODY


@pytest.mark.parametrize("region", REGIONS)
def test_300_flips_are_named_errors_or_identical_bytes(region):
    bits = [bit for name, first, end in regions() if name == region for bit in range(8 * first, 8 * end)]
    random.Random(region).shuffle(bits)
    errors = 0
    for bit in bits[:FLIPS]:
        damaged = bytearray(STORED)
        damaged[bit // 8] ^= 1 << bit % 8
        for read in (in_order, by_index):
            try:
                assert read(bytes(damaged)) == BODY
            except FormatError as error:
                errors += read is in_order
                assert str(error)
    # Every byte of a container lies under a checksum, so a reader of all of it sees each flip.
    assert errors == len(bits[:FLIPS])
