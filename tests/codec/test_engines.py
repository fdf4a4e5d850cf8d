"""Whole payloads: both engines the same to the byte, both instruction sets, every type, level and bit pattern."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s4weights.codec import _native
from s4weights.codec.engines import NativeEngine, ReferenceEngine, choose_engine
from s4weights.codec.errors import ConfigError, FormatError
from s4weights.codec.types import NO_GRID, ElementType, Grid, Layout, Level, Predictor
from tests.codec.engines.bodies import FLOATS, TYPED, cut, moments, symbols, weights
from tests.native.payloads import FASTEST_SIMD, INSTRUCTION_SETS

NATIVE, REFERENCE = NativeEngine(), ReferenceEngine()
ENGINES = [NATIVE, REFERENCE]
EVERY_LEVEL = pytest.mark.parametrize("level", Level, ids=lambda one: one.value)


def round_trip(data: bytes, element: ElementType, grid: Grid = NO_GRID, level: Level = Level.BALANCED) -> None:
    first, second = (engine.encode(data, element, grid=grid, level=level) for engine in ENGINES)
    for name in ("element", "predictor", "layout", "modes"):
        assert getattr(first, name) == getattr(second, name), name
    assert bytes(first.payload) == bytes(second.payload)
    if first.layout is Layout.RAW:
        assert first.payload == data
        return
    assert len(first.payload) < len(data)
    for engine in ENGINES:
        found = engine.decode(first.payload, first.element, first.predictor, first.layout, first.planes, len(data))
        assert found == data


@pytest.fixture(params=INSTRUCTION_SETS)
def simd(request):
    yield _native.set_simd(request.param)
    _native.set_simd(FASTEST_SIMD)


@EVERY_LEVEL
@pytest.mark.parametrize("element", TYPED, ids=lambda one: one.name)
@pytest.mark.parametrize("count", [1, 7, 33, 4096, 16_385, 65_537])
def test_sizes_around_rows_samples_and_blocks(element, count, level):
    data = weights(count, element) if element.is_float else symbols(count * element.width, 0.3)
    round_trip(data, element, level=level)


@EVERY_LEVEL
@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
@pytest.mark.parametrize(("columns", "start"), [(64, 0), (64, 13), (17, 16), (1000, 999)])
def test_moments_in_rows_and_columns(element, columns, start, level, simd):
    count = 70_001 if columns == 1000 else 20_001
    data, grid = cut(moments(-(-(count + start) // columns), columns, element), element, columns, start, count)
    round_trip(data, element, grid, level)


@EVERY_LEVEL
@pytest.mark.parametrize("element", [one for one in TYPED if one.width == 2], ids=lambda one: one.name)
def test_all_patterns_of_16_bit_types(element, level):
    patterns = np.arange(65_536, dtype="<u2").tobytes()
    round_trip(patterns, element, level=level)
    # Enough zeros beside them that the planes are coded, not stored.
    round_trip(patterns + bytes(300_000), element, level=level)
    if element.is_float:
        round_trip(moments(512, 256, element) + patterns, element, Grid(256, 0), level)


@pytest.mark.parametrize("element", [one for one in TYPED if one.width == 1], ids=lambda one: one.name)
def test_all_patterns_of_8_bit_types(element):
    round_trip(bytes(range(256)) * 3 + bytes(5_000), element)


SPECIAL_32 = [0x7F800001, 0xFF800001, 0x7FC00000, 0x7FFFFFFF, 0x80000000, 0x7F800000, 1, 0x807FFFFF, 0x00800000]
SPECIAL_64 = [0x7FF0000000000001, 0xFFF8000000000001, 0x8000000000000000, 0x7FF0000000000000, 1, 0x800FFFFFFFFFFFFF]


@EVERY_LEVEL
@pytest.mark.parametrize(
    ("element", "patterns"), [(ElementType.F32, SPECIAL_32), (ElementType.F64, SPECIAL_64)], ids=["F32", "F64"]
)
def test_nan_payloads_signed_zeros_denormals_and_infinities(element, patterns, level):
    data = np.array(patterns * 500, dtype=f"<u{element.width}").tobytes()
    round_trip(data, element, level=level)
    round_trip(data, element, Grid(50, 7), level)


RNG = np.random.default_rng(0)
PLANES = {
    "nearly constant": bytes([1]) * 65_535 + bytes([2]),
    "two symbols": bytes([0, 255]) * 50_000,
    "uniform": bytes(range(256)) * 500,
    "coin": RNG.integers(0, 2, 100_000, dtype=np.uint8).tobytes(),
    "rare ones": (RNG.random(200_000) < 0.02).astype(np.uint8).tobytes(),
    "geometric": RNG.geometric(0.3, 200_000).clip(0, 255).astype(np.uint8).tobytes(),
    "bell over the end": RNG.normal(0, 3, 200_000).astype(np.int8).tobytes(),
    "sixteen values and others": (RNG.integers(0, 16, 150_000) + 130 * (RNG.random(150_000) < 0.01))
    .astype(np.uint8)
    .tobytes(),
    "a calm start": bytes(100_000) + RNG.bytes(100_000),
    "noise at the end": RNG.geometric(0.6, 130_000).clip(0, 255).astype(np.uint8).tobytes() + RNG.bytes(20_000),
}


@EVERY_LEVEL
@pytest.mark.parametrize("name", PLANES)
def test_a_plane_is_stored_the_same_by_every_engine(name, level, simd):
    round_trip(PLANES[name], ElementType.U8, level=level)


@given(st.binary(min_size=8, max_size=3000), st.sampled_from(TYPED), st.sampled_from(list(Level)), st.integers(0, 200))
@settings(max_examples=150, deadline=None)
def test_any_bytes_round_trip(data, element, level, columns):
    round_trip(data[: len(data) - len(data) % element.width], element, Grid(columns, columns // 3), level)


@given(st.integers(0, 2**32), st.integers(1, 9_000), st.floats(0.02, 0.9), st.sampled_from(TYPED))
@settings(max_examples=40, deadline=None)
def test_scalar_and_vector_payloads_are_the_same_and_decode_each_other(seed, count, skew, element):
    data = symbols(count * element.width, skew, seed)
    try:
        for name in INSTRUCTION_SETS:
            _native.set_simd(name)
            for level in Level:
                round_trip(data, element, Grid(19, 4), level)
    finally:
        _native.set_simd(FASTEST_SIMD)


@pytest.mark.parametrize("data", [b"a" * 5000, b"abc" * 5000, np.random.default_rng(0).bytes(5000)])
@EVERY_LEVEL
def test_untyped_bytes(data, level):
    round_trip(data, ElementType.BYTES, level=level)


def damaged(data: bytes, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    changed = bytearray(data)
    kind = seed % 3
    if kind == 0:
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del changed[int(rng.integers(len(changed))) :]
    else:
        start = int(rng.integers(len(changed)))
        changed[start : start + 8] = rng.bytes(8)
    return bytes(changed)


@EVERY_LEVEL
def test_damaged_payloads_are_errors_or_the_same_bytes_in_every_engine(level, simd):
    data = moments(100, 64, ElementType.BF16)
    coded = REFERENCE.encode(data, ElementType.BF16, grid=Grid(64, 0), level=level)
    assert (coded.predictor is Predictor.LEVELS) == (level is not Level.FAST)
    errors = 0
    for seed in range(150):
        payload = damaged(bytes(coded.payload), seed)
        found = []
        for engine in ENGINES:
            try:
                found.append(
                    engine.decode(payload, ElementType.BF16, coded.predictor, coded.layout, coded.planes, len(data))
                )
            except FormatError as error:
                assert "expected" in str(error)
                found.append(b"")
        assert found[0] == found[1], seed
        assert len(found[0]) in (0, len(data))
        errors += found[0] == b""
    assert errors > 20


@pytest.mark.parametrize("engine", ENGINES, ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("payload", "logical"),
    [
        (b"", 100),
        (bytes(8), 100),
        (b"\x09" + bytes(7), 100),
        (b"\x00\x01" + bytes(6), 100),
        (b"\x00\0\0\0\xff\xff\xff\xff" + bytes(100), 100),
        (b"\x02\0\0\0\x21\0\0\0" + bytes(33), 100),
        (b"\x01\0\0\0\x02\0\0\0ab", 100),
        (b"\x00\0\0\0\x64\0\0\0" + bytes(101), 100),
        (b"\x03\0\0\0\x09\0\0\0" + bytes(9), 100),
        (b"\x04\0\0\0\x09\0\0\0" + bytes(9), 100),
        (b"\x05\0\0\0\x09\0\0\0" + bytes(9), 100),
        (b"\x06\0\0\0\x05\0\0\0\x01\x01" + bytes(3), 100),
    ],
)
def test_payloads_that_contradict_themselves_are_named(engine, payload, logical):
    with pytest.raises(FormatError, match="expected"):
        engine.decode(payload, ElementType.U8, Predictor.NONE, Layout.PLANES, 1, logical)


def test_unknown_engines_are_named():
    with pytest.raises(ConfigError, match="turbo"):
        choose_engine("turbo")
    assert choose_engine().name == "native"
