"""The oracle gives back every bit, and writes what a decoder made from the document reads."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec.engines.reference import ReferenceEngine
from s4weights.codec.types import NO_GRID, ElementType, Grid, Layout, Level, Mode, Predictor
from tests.codec.document import decode_payload
from tests.codec.engines.bodies import FLOATS, TYPED, cut, moments, symbols, weights

ENGINE = ReferenceEngine()


def coded_and_back(data, element, grid=NO_GRID, level=Level.BALANCED):
    coded = ENGINE.encode(data, element, grid=grid, level=level)
    if coded.layout is Layout.RAW:
        assert coded.payload == data
        assert (coded.predictor, coded.modes) == (Predictor.NONE, ())
        return coded
    assert len(coded.payload) < len(data)
    found = ENGINE.decode(coded.payload, coded.element, coded.predictor, coded.layout, coded.planes, len(data))
    assert found == data
    return coded


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
@pytest.mark.parametrize("element", TYPED, ids=lambda one: one.name)
def test_typed_frames_come_back_as_the_document_says(element, level):
    n = 1500
    data = weights(n, element) if element.is_float else symbols(n * element.width, 0.5)
    coded = coded_and_back(data, element, level=level)
    assert coded.layout is not Layout.RAW
    if coded.element is element:
        payload = bytes(coded.payload)
        assert decode_payload(payload, element, coded.predictor, coded.layout, n) == data


@pytest.mark.parametrize("level", [Level.BALANCED, Level.SMALL], ids=lambda one: one.value)
@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
@pytest.mark.parametrize("start", [0, 5, 63])
def test_moments_are_predicted_from_rows_and_columns_and_come_back(element, level, start):
    data, grid = cut(moments(200, 64, element), element, 64, start, 9_001)
    coded = coded_and_back(data, element, grid, level)
    assert coded.predictor is Predictor.LEVELS
    assert int.from_bytes(coded.payload[:4], "little") == 64
    assert int.from_bytes(coded.payload[4:8], "little") == start
    plain = coded_and_back(data, element, NO_GRID, level)
    assert len(coded.payload) < len(plain.payload)
    assert decode_payload(bytes(coded.payload), element, coded.predictor, coded.layout, 9_001) == data


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
@pytest.mark.parametrize("n", [1, 2, 5, 31, 63, 64, 65, 128, 129, 65_535, 65_536, 65_537, 131_073])
def test_sizes_around_groups_and_blocks(n, level):
    # The values of a fast level's nibbles, of Huffman's narrow table, and some that neither has.
    plane = bytearray(symbols(n, 0.25, n))
    plane[n // 2] = 200
    coded = coded_and_back(bytes(plane), ElementType.U8, level=level)
    if coded.modes and coded.modes[0] is not Mode.ZSTD:
        assert decode_payload(bytes(coded.payload), ElementType.U8, coded.predictor, coded.layout, n) == plane


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
@pytest.mark.parametrize("element", [one for one in FLOATS if one.width == 2], ids=lambda one: one.name)
def test_all_patterns_of_16_bit_floats_in_a_grid(element, level):
    # Beside moments that make the writer predict: every bit pattern through the predictor.
    patterns = np.arange(65_536, dtype="<u2").tobytes()
    data = moments(512, 256, element) + patterns
    coded = coded_and_back(data, element, Grid(256, 0), level)
    assert (coded.predictor is Predictor.LEVELS) == (level is not Level.FAST)


SPECIAL_32 = [0x7F800001, 0xFF800001, 0x7FC00000, 0x7FFFFFFF, 0x80000000, 0x7F800000, 1, 0x807FFFFF, 0x00800000, 0]


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
def test_nan_payloads_signed_zeros_and_denormals(level):
    coded_and_back(np.array(SPECIAL_32 * 800, dtype="<u4").tobytes(), ElementType.F32, Grid(80, 3), level)


def test_fast_uses_neither_predictor_nor_entropy_coder():
    coded = coded_and_back(moments(128, 64, ElementType.F32), ElementType.F32, Grid(64, 0), Level.FAST)
    assert (coded.predictor, coded.layout) == (Predictor.NONE, Layout.ROTATED_1)
    assert set(coded.modes) <= {Mode.RAW, Mode.CONSTANT, Mode.BITS, Mode.NIBBLES}


def test_a_level_of_more_effort_is_smaller_but_for_what_a_sample_misses():
    data = moments(256, 128, ElementType.F32)
    sizes = [len(ENGINE.encode(data, ElementType.F32, grid=Grid(128, 0), level=level).payload) for level in Level]
    assert sizes[1] < 0.9 * sizes[0]
    assert sizes[2] < 1.01 * sizes[1]


def test_integers_that_repeat_are_stored_without_a_type_where_that_is_smaller():
    data = np.arange(20_000, dtype="<i8").tobytes()
    for level, element in ((Level.FAST, ElementType.I64), (Level.BALANCED, ElementType.BYTES)):
        assert coded_and_back(data, ElementType.I64, level=level).element is element
    noise = np.random.default_rng(0).bytes(4_000)
    coded = ENGINE.encode(noise, ElementType.U8)
    assert (coded.element, coded.layout, coded.payload) == (ElementType.U8, Layout.RAW, noise)


def test_a_plane_that_is_not_what_its_sample_promised_is_raw():
    # Constant where the sample looks, noise elsewhere.
    n = 262_144
    plane = np.random.default_rng(0).integers(0, 256, n, dtype=np.uint8).reshape(-1, 32, 256)
    for group in range(len(plane)):
        plane[group, 13 * group % 32] = 7
    # `small` would try zstd, which finds the constant runs.
    for level in (Level.FAST, Level.BALANCED):
        assert ENGINE.encode(plane.tobytes(), ElementType.U8, level=level).layout is Layout.RAW


@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
def test_products_take_up_what_rows_and_columns_leave(element):
    data = moments(120, 96, element, products=2)
    coded = coded_and_back(data, element, Grid(96, 0), Level.SMALL)
    assert coded.predictor is Predictor.LEVELS
    assert coded.payload[10] >= 1
    assert decode_payload(bytes(coded.payload), element, coded.predictor, coded.layout, 120 * 96) == data
    balanced = coded_and_back(data, element, Grid(96, 0), Level.BALANCED)
    assert balanced.layout in (
        [Layout.ROTATED_4] if element is ElementType.F64 else [Layout.ROTATED_1, Layout.ROTATED_3]
    )
