"""Frames from bases: both engines the same to the byte, every predictor, and what is chosen when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.engines.payload import base_predictors
from s4weights.codec.errors import FormatError
from s4weights.codec.prediction import add, narrow, subtract
from s4weights.codec.types import Base, BaseKind, ElementType, Layout, Level, Mode, Predictor, Reference
from tests.codec.document import decode_payload
from tests.codec.engines.bodies import TYPED, weights

ENGINES = [NativeEngine(), ReferenceEngine()]
EVERY_LEVEL = pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES, ids=lambda one: one.name)
# The frame's type, and what its base is.
PAIRS = [(element, kind) for element in ElementType for kind in BaseKind if base_predictors(element, kind)]


def base(data: bytes, kind: BaseKind = BaseKind.SAME, number: int = 1) -> Base:
    return Base(Reference(number, 0), kind, data)


def round_trip(data, element, bases, level=Level.BALANCED):
    """What both engines make of it, and both and the document give back."""
    first, second = (engine.encode(data, element, level=level, bases=bases) for engine in ENGINES)
    for name in ("element", "predictor", "layout", "modes", "base"):
        assert getattr(first, name) == getattr(second, name), name
    assert bytes(first.payload) == bytes(second.payload)
    other = None if first.base is None else bytes(bases[first.base].data)
    if first.layout is Layout.RAW and other is None:
        assert first.payload == data
        return first
    assert first.stored_bytes <= len(data)
    for engine in ENGINES:
        found = engine.decode(
            first.payload, first.element, first.predictor, first.layout, first.planes, len(data), other
        )
        assert found == data
        assert engine.decodes_to(first, data, other)
        wrong = bytes([data[0] ^ 1]) + data[1:]
        assert not engine.decodes_to(first, wrong, other)
    return first


def near(element, kind, count, seed, changed):
    """A base, and elements of which a share is off a little from what it predicts."""
    rng = np.random.default_rng(seed)
    width = element.width
    data = rng.bytes(kind.base_bytes(count * width))
    off = (rng.random(count) < changed) * rng.integers(1, 4, count)
    if kind is BaseKind.WIDER:
        exact = np.frombuffer(narrow(data), "<u2")
    elif kind is BaseKind.NARROWER:
        exact = (np.frombuffer(data, "<u2").astype("<u4") << 16) + rng.integers(-32768, 32768, count).astype("<u4")
    else:
        exact = np.frombuffer(data, f"<u{width}")
    return data, (exact + off.astype(exact.dtype)).astype(exact.dtype).tobytes()


@EVERY_LEVEL
@pytest.mark.parametrize(("element", "kind"), PAIRS, ids=lambda one: one.name)
@pytest.mark.parametrize("count", [3, 700, 17_001])
def test_frames_near_a_base_are_predicted_from_it(element, kind, count, level):
    data, frame = near(element, kind, count, 1, 0.3)
    coded = round_trip(frame, element, [base(data, kind)], level)
    if count > 3:
        assert coded.base == 0
        assert coded.predictor.base_kind is kind


@pytest.mark.parametrize(
    ("element", "kind"), [one for one in PAIRS if one[1] is not BaseKind.NARROWER], ids=lambda one: one.name
)
def test_a_frame_that_is_what_its_base_predicts_costs_a_reference(element, kind):
    data, frame = near(element, kind, 5_000, 2, 0)
    other, _ = near(element, kind, 5_000, 3, 0)
    for level in Level:
        coded = round_trip(frame, element, [base(other, kind), base(data, kind), base(data, kind, 2)], level)
        assert (coded.layout, coded.base, coded.stored_bytes, coded.is_base) == (Layout.RAW, 1, 16, True)


@EVERY_ENGINE
def test_a_copy_no_longer_than_a_reference_is_none(engine):
    for size in (8, 16):
        assert engine.encode(bytes(range(size)), ElementType.U8, bases=[base(bytes(range(size)))]).base is None
        assert engine.encode(bytes(range(size)), ElementType.BYTES, bases=[base(bytes(range(size)))]).base is None
    assert engine.encode(bytes(range(17)), ElementType.U8, bases=[base(bytes(range(17)))]).is_base


@EVERY_LEVEL
@pytest.mark.parametrize("element", TYPED, ids=lambda one: one.name)
def test_a_base_that_says_nothing_is_not_taken(element, level):
    count = 20_000
    frame = weights(count, element) if element.is_float else bytes(np.arange(count * element.width) % 5)
    noise = np.random.default_rng(4).bytes(len(frame))
    assert round_trip(frame, element, [base(noise)], level).base is None


def test_the_better_of_two_bases_is_taken():
    far, frame = near(ElementType.F32, BaseKind.SAME, 20_000, 5, 0)
    twin = base(narrow(frame), BaseKind.NARROWER, 0)
    close = base((np.frombuffer(frame, "<u4") ^ 1).tobytes())
    for bases, expected in [([base(far[::-1]), twin], 1), ([twin, close], 1), ([close, twin], 0)]:
        assert round_trip(frame, ElementType.F32, bases).base == expected


@pytest.mark.parametrize("predictor", [one for one in Predictor if one.needs_base])
@pytest.mark.parametrize("element", ElementType, ids=lambda one: one.name)
def test_what_is_taken_away_is_given_back_as_the_document_says(element, predictor):
    if not predictor.fits(element):
        return
    rng = np.random.default_rng(6)
    count = 300
    data = rng.bytes(count * element.width)
    other = rng.bytes(predictor.base_kind.base_bytes(len(data)))
    rest = subtract(data, element, predictor, other)
    assert add(rest, element, predictor, other) == data
    planes = [bytes(np.frombuffer(rest, np.uint8).reshape(count, -1)[:, k]) for k in range(element.width)]
    payload = b"".join([len(plane).to_bytes(4, "little").rjust(8, b"\0") for plane in planes] + planes)
    assert decode_payload(payload, element, predictor, Layout.PLANES, count, other) == data


def test_values_close_to_each_other_differ_by_little_also_around_zero():
    values = np.linspace(-1e-40, 1e-40, 2_001).astype("<f4")
    steps = subtract(values[1:].tobytes(), ElementType.F32, Predictor.DIFFERENCE, values[:-1].tobytes())
    assert np.frombuffer(steps, "<u4").max() < 500


@EVERY_ENGINE
@pytest.mark.parametrize(
    ("predictor", "layout", "planes", "other"),
    [
        (Predictor.XOR, Layout.RAW, 0, None),
        (Predictor.XOR, Layout.RAW, 0, bytes(99)),
        (Predictor.XOR, Layout.RAW, 0, bytes(101)),
        (Predictor.XOR, Layout.RAW, 2, bytes(100)),
        (Predictor.XOR, Layout.PLANES, 2, bytes(100)),
        (Predictor.XOR, Layout.ROTATED_2, 2, bytes(100)),
        (Predictor.DIFFERENCE, Layout.RAW, 0, bytes(100)),
        (Predictor.DIFFERENCE, Layout.ROTATED_1, 2, bytes(100)),
        (Predictor.NARROWED, Layout.RAW, 0, bytes(100)),
        (Predictor.WIDENED, Layout.PLANES, 2, bytes(50)),
        (Predictor.NONE, Layout.ROTATED_1, 2, bytes(100)),
    ],
)
def test_payloads_and_bases_that_do_not_fit_are_named(engine, predictor, layout, planes, other):
    payload = b"" if planes == 0 else (b"\1" + bytes(3) + b"\1\0\0\0") * planes + bytes(planes)
    with pytest.raises(FormatError, match="expected"):
        engine.decode(payload, ElementType.BF16, predictor, layout, planes, 100, other)


@given(
    st.sampled_from(PAIRS),
    st.sampled_from(list(Level)),
    st.integers(1, 3_000),
    st.integers(0, 2**32),
    st.floats(0, 1),
    st.integers(0, 2),
)
@settings(max_examples=80, deadline=None)
def test_any_frame_comes_back_whatever_it_is_offered(pair, level, count, seed, changed, others):
    element, kind = pair
    data, frame = near(element, kind, count, seed, changed)
    rng = np.random.default_rng(seed)
    bases = [base(rng.bytes(len(frame)), number=2 + k) for k in range(others)]
    bases.insert(seed % (others + 1), base(data, kind))
    round_trip(frame, element, bases, level)


@EVERY_LEVEL
def test_huffman_is_not_used_for_what_is_left_of_a_base(level):
    """Of differences with many values it costs three hundredths, and rANS is no slower."""
    rng = np.random.default_rng(5)
    old = weights(200_000, ElementType.BF16)
    new = (
        (np.frombuffer(old, "<u2") + rng.normal(0, 20, len(old) // 2).astype("<i2").view("<u2")).astype("<u2").tobytes()
    )
    coded = [engine.encode(new, ElementType.BF16, level=level, bases=[base(old)]) for engine in ENGINES]
    assert [one.predictor for one in coded] == [Predictor.DIFFERENCE] * 2
    assert Mode.HUFFMAN not in coded[0].modes + coded[1].modes
    alone = [engine.encode(old, ElementType.BF16, level=Level.BALANCED) for engine in ENGINES]
    assert all(Mode.HUFFMAN in one.modes for one in alone)
