"""Whatever the elements, their grid and the level: the oracle gives them back."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from s4weights.codec.engines.reference import ReferenceEngine
from s4weights.codec.entropy import Sample, bits, histogram, huffman, nibbles
from s4weights.codec.types import Grid, Layout, Level
from tests.codec.document import decode_payload
from tests.codec.engines.bodies import FLOATS, TYPED, moments

ENGINE = ReferenceEngine()
LEVELS = st.sampled_from(list(Level))


@st.composite
def grids(draw, columns=st.integers(0, 300)):
    count = draw(columns)
    return Grid(count, draw(st.integers(0, count - 1)) if count else 0)


def comes_back(data, element, grid, level):
    coded = ENGINE.encode(data, element, grid=grid, level=level)
    if coded.layout is Layout.RAW:
        assert coded.payload == data
        return coded
    assert len(coded.payload) < len(data)
    found = ENGINE.decode(coded.payload, coded.element, coded.predictor, coded.layout, coded.planes, len(data))
    assert found == data
    return coded


@given(st.binary(min_size=8, max_size=3000), st.sampled_from(TYPED), grids(), LEVELS)
@settings(max_examples=150, deadline=None)
def test_any_bytes_come_back(data, element, grid, level):
    comes_back(data[: len(data) - len(data) % element.width], element, grid, level)


@given(st.integers(0, 2**32), st.integers(1, 9_000), st.floats(0.02, 0.95), st.sampled_from(TYPED), LEVELS)
@settings(max_examples=60, deadline=None)
def test_skewed_bytes_come_back(seed, count, skew, element, level):
    octets = np.random.default_rng(seed).geometric(skew, count * element.width).clip(0, 255)
    comes_back(octets.astype(np.uint8).tobytes(), element, Grid(), level)


@given(st.integers(0, 2**32), st.sampled_from(FLOATS), st.integers(16, 90), st.integers(0, 5_000), LEVELS, st.data())
@settings(max_examples=40, deadline=None)
def test_moments_from_anywhere_in_a_tensor_come_back_as_the_document_says(seed, element, columns, extra, level, data):
    rows = 20 + extra // columns
    width = element.width
    start = data.draw(st.integers(0, columns))
    end = data.draw(st.integers(10 * columns, rows * columns))
    frame = moments(rows, columns, element, seed)[start * width : end * width]
    coded = comes_back(frame, element, Grid(columns, start % columns), level)
    if coded.element is element and coded.layout is not Layout.RAW:
        found = decode_payload(bytes(coded.payload), element, coded.predictor, coded.layout, len(frame) // width)
        assert found == frame


@given(st.binary(min_size=1, max_size=2000), st.integers(1, 400), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_what_fits_a_part_of_a_plane_codes_the_whole(plane, part, seed):
    looked_at = (
        np.random.default_rng(seed).choice(np.frombuffer(plane, dtype=np.uint8), min(part, len(plane))).tobytes()
    )
    sample = Sample(histogram(looked_at), len(plane))
    assert bits.decode(bits.fit(sample).encode(plane, lambda m: m), len(plane)) == plane
    assert nibbles.decode(nibbles.fit(sample).encode(plane, lambda m: m), len(plane)) == plane
    coder = huffman.fit(sample)
    if coder is not None:
        assert huffman.decode(coder.encode(plane, lambda m: m), len(plane)) == plane
