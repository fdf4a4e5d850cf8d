"""Planes, rANS and whole payloads: both engines, both instruction sets, every bit pattern."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s4weights.codec import _native
from s4weights.codec.engines import NativeEngine, ReferenceEngine, choose_engine
from s4weights.codec.entropy import decode_plane, encode_bytes, rans
from s4weights.codec.errors import ConfigError, FormatError
from s4weights.codec.planes import join_planes, split_planes
from s4weights.codec.types import ElementType, Layout, Mode

from .samples import normal

NATIVE, REFERENCE = NativeEngine(), ReferenceEngine()
ENGINES = [NATIVE, REFERENCE]
TYPED = [element for element in ElementType if element is not ElementType.BYTES]


def round_trip(data: bytes, element: ElementType) -> None:
    first, second = (engine.encode(data, element) for engine in ENGINES)
    assert (first.layout, first.modes, bytes(first.payload)) == (second.layout, second.modes, bytes(second.payload))
    assert len(first.payload) <= len(data)
    if first.layout is Layout.RAW:
        assert first.payload == data
        return
    for engine in ENGINES:
        assert engine.decode(first.payload, element, first.layout, first.planes, len(data)) == data


@pytest.fixture(params=["avx2", "scalar"])
def simd(request):
    yield _native.set_simd(request.param)
    _native.set_simd("avx2")


@pytest.mark.parametrize("element", TYPED, ids=lambda one: one.name)
@pytest.mark.parametrize("count", [1, 7, 31, 32, 33, 4096, 65_535, 65_536, 65_537, 131_073])
def test_sizes_around_rows_and_chunks(element, count):
    data = (normal(count * element.width, "f32") * element.width)[: count * element.width]
    round_trip(data, element)


@pytest.mark.parametrize("element", [one for one in TYPED if one.width == 2], ids=lambda one: one.name)
def test_all_patterns_of_16_bit_types(element):
    patterns = np.arange(65_536, dtype="<u2").tobytes()
    round_trip(patterns, element)
    planes = split_planes(patterns, element)
    assert join_planes(planes, element) == patterns
    # Enough zeros beside them that the planes are coded, not stored.
    round_trip(patterns + bytes(300_000), element)


@pytest.mark.parametrize("element", [one for one in TYPED if one.width == 1], ids=lambda one: one.name)
def test_all_patterns_of_8_bit_types(element):
    round_trip(bytes(range(256)) * 3 + bytes(5_000), element)


SPECIAL_32 = [0x7F800001, 0xFF800001, 0x7FC00000, 0x7FFFFFFF, 0x80000000, 0x7F800000, 1, 0x807FFFFF, 0x00800000]
SPECIAL_64 = [0x7FF0000000000001, 0xFFF8000000000001, 0x8000000000000000, 0x7FF0000000000000, 1, 0x800FFFFFFFFFFFFF]


@pytest.mark.parametrize(
    ("element", "patterns"), [(ElementType.F32, SPECIAL_32), (ElementType.F64, SPECIAL_64)], ids=["F32", "F64"]
)
def test_nan_payloads_signed_zeros_denormals_and_infinities(element, patterns):
    round_trip(np.array(patterns * 500, dtype=f"<u{element.width}").tobytes(), element)


@pytest.mark.parametrize(
    "plane",
    [
        bytes([1]) * 65_535 + bytes([2]),
        bytes([0, 255]) * 50_000,
        bytes(range(256)) * 500,
        np.random.default_rng(0).integers(0, 2, 100_000, dtype=np.uint8).tobytes(),
        np.random.default_rng(0).geometric(0.3, 200_000).clip(0, 255).astype(np.uint8).tobytes(),
    ],
    ids=["nearly constant", "two symbols", "uniform", "coin", "geometric"],
)
def test_rans_is_the_same_in_every_engine(plane, simd):
    stored = rans.encode(plane)
    assert _native.rans_encode(plane) == stored
    assert _native.rans_decode(stored, len(plane)) == plane
    assert rans.decode(stored, len(plane)) == plane


@given(st.binary(min_size=1, max_size=3000), st.sampled_from(TYPED))
@settings(max_examples=150, deadline=None)
def test_any_bytes_round_trip(data, element):
    size = len(data) - len(data) % element.width
    if size:
        round_trip(data[:size], element)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("rotated", [False, True])
def test_scalar_and_vector_planes_are_the_same(width, rotated):
    data = np.random.default_rng(width).bytes(width * 4099)
    results = []
    try:
        for name in ("scalar", "avx2"):
            _native.set_simd(name)
            planes = _native.split_planes(data, width, rotated)
            results.append(planes)
            assert _native.join_planes(planes, width, rotated) == data
    finally:
        _native.set_simd("avx2")
    assert results[0] == results[1]


@given(st.integers(0, 2**32), st.integers(1, 9_000), st.floats(0.02, 0.9), st.sampled_from(TYPED))
@settings(max_examples=60, deadline=None)
def test_scalar_and_vector_payloads_are_the_same_and_decode_each_other(seed, count, skew, element):
    octets = np.random.default_rng(seed).geometric(skew, count * element.width).clip(0, 255)
    data = octets.astype(np.uint8).tobytes()
    coded = {}
    try:
        for name in ("scalar", "avx2"):
            _native.set_simd(name)
            coded[name] = NATIVE.encode(data, element)
        one = coded["scalar"]
        assert bytes(one.payload) == bytes(coded["avx2"].payload)
        for name in ("scalar", "avx2"):
            _native.set_simd(name)
            found = NATIVE.decode(one.payload, element, one.layout, one.planes, len(data)) if one.planes else data
            assert found == data
    finally:
        _native.set_simd("avx2")
    assert bytes(REFERENCE.encode(data, element).payload) == bytes(one.payload)


def test_frequencies_sum_to_the_scale_for_any_counts():
    rng = np.random.default_rng(0)
    for spread in (2, 3, 20, 200, 256):
        counts = np.zeros(256, dtype=np.int64)
        counts[:spread] = np.maximum(1, rng.pareto(0.3, spread).clip(0, 1e9).astype(np.int64))
        frequencies = rans.normalise(counts)
        assert frequencies.sum() == rans.SCALE
        assert (frequencies[counts > 0] > 0).all()
        assert frequencies.max() < rans.SCALE


def test_stored_bytes_are_within_one_per_cent_of_the_entropy():
    plane = np.random.default_rng(0).geometric(0.35, 1 << 18).clip(0, 255).astype(np.uint8).tobytes()
    shares = rans.histogram(plane)[rans.histogram(plane) > 0] / len(plane)
    bound = -(shares * np.log2(shares)).sum() * len(plane) / 8
    assert bound < len(_native.rans_encode(plane)) <= 1.01 * bound


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


@pytest.mark.parametrize("engine", ENGINES, ids=lambda one: one.name)
def test_damaged_payloads_are_errors_or_bytes_of_the_right_length(engine, simd):
    data = normal(3_000)
    coded = NATIVE.encode(data, ElementType.BF16)
    assert Mode.RANS in coded.modes
    errors = 0
    for seed in range(200):
        try:
            found = engine.decode(
                damaged(bytes(coded.payload), seed), ElementType.BF16, coded.layout, coded.planes, len(data)
            )
            assert len(found) == len(data)
        except FormatError as error:
            errors += 1
            assert "expected" in str(error)
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
    ],
)
def test_payloads_that_contradict_themselves_are_named(engine, payload, logical):
    with pytest.raises(FormatError, match="expected"):
        engine.decode(payload, ElementType.U8, Layout.BYTE_PLANES, 1, logical)


@pytest.mark.parametrize("data", [b"a" * 5000, b"abc" * 5000, np.random.default_rng(0).bytes(5000)])
def test_untyped_bytes(data):
    mode, stored = encode_bytes(data)
    assert decode_plane(mode, stored, len(data)) == data
    round_trip(data, ElementType.BYTES)


def test_a_zstd_plane_never_gives_more_than_was_asked_for():
    _, bomb = encode_bytes(bytes(1 << 24) + b"x")
    with pytest.raises(FormatError, match="did not decompress full frame"):
        decode_plane(Mode.ZSTD, bomb, 1000)


def test_unknown_engines_are_named():
    with pytest.raises(ConfigError, match="turbo"):
        choose_engine("turbo")
    assert choose_engine().name == "native"
