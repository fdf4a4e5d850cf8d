"""Whole frames: byte for byte what NativeEngine(huffman=False) writes, and back; a level's frames all in one batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from s4weights.codec.engines import NativeEngine
from s4weights.codec.prediction import narrow
from s4weights.codec.types import BaseKind, ElementType, Grid, Layout, Level, Mode, Predictor
from tests.codec.engines.bodies import FLOATS, TYPED, as_floats, cut, moments, symbols, weights
from tests.gpu.frames import Case, check_batch, stored_in, stored_of, tensor

LEVELS = [pytest.param(level, id=level.value) for level in Level]


def plain_frames(count):
    for element in FLOATS:
        yield Case(weights(count, element), element)
        yield Case(moments(count // 100, 100, element, products=2), element, Grid(100))
        yield Case(*cut(moments(90, 61, element, 1), element, 61, 20, 61 * 80 + 7)[:1], element, Grid(61, 20))
    for element in TYPED:
        if not element.is_float:
            yield Case(symbols(900 * element.width, 0.3), element)
    yield Case(b"to be or not to be " * 200, ElementType.BYTES)
    yield Case(np.random.default_rng(0).bytes(3000), ElementType.BYTES)


def odd_frames():
    """Tiny, constant, noise, repeating, and those whose bytes are hard to foresee from a sample."""
    for element in FLOATS:
        yield Case(weights(1, element), element)
        yield Case(weights(37, element), element)
        yield Case(as_floats(np.full(3000, 0.125), element), element)
        yield Case(np.random.default_rng(0).bytes(2000 * element.width), element)
        yield Case(weights(100, element) * 30, element)
        yield Case(as_floats(np.random.default_rng(1).choice([0.5, -0.5, 1.0], 3000), element), element)
    # Runs that the sample does not see.
    for start in (100, 9000):
        values = np.random.default_rng(2).normal(0, 0.02, 20_000).astype(np.float32)
        values[start : start + 2000] = np.exp(np.random.default_rng(3).normal(0, 20, 2000))
        yield Case(as_floats(values, ElementType.BF16), ElementType.BF16)
    almost = np.ones(70_000, dtype=np.uint8)
    almost[130 : 130 + 1500] = np.random.default_rng(4).integers(0, 256, 1500)
    yield Case(almost.tobytes(), ElementType.U8)


def delta_frames(count):
    rng = np.random.default_rng(7)
    for element in FLOATS:
        data = weights(count, element)
        words = np.frombuffer(data, dtype=f"<u{element.width}")
        nudged = (words + (rng.random(count) < 0.3).astype(words.dtype)).tobytes()
        far = weights(count, element, 9)
        yield Case(data, element, bases=((BaseKind.SAME, far), (BaseKind.SAME, nudged)))
        yield Case(data, element, bases=((BaseKind.SAME, nudged), (BaseKind.SAME, data)))
        yield Case(data[: 16 // element.width * element.width], element, bases=((BaseKind.SAME, data[:16]),))
    wide = as_floats(rng.normal(0, 0.02, count), ElementType.F32)
    rounded = narrow(wide)
    yield Case(rounded, ElementType.BF16, bases=((BaseKind.WIDER, wide),))
    changed = np.frombuffer(rounded, dtype="<u2").copy()
    changed[::50] += 1
    yield Case(changed.tobytes(), ElementType.BF16, bases=((BaseKind.WIDER, wide),))
    yield Case(wide, ElementType.F32, bases=((BaseKind.NARROWER, rounded),))
    ids = np.arange(count, dtype="<i4")
    yield Case(ids.tobytes(), ElementType.I32, bases=((BaseKind.SAME, (ids - 1).tobytes()),))
    yield Case(b"x" * 999, ElementType.BYTES, bases=((BaseKind.SAME, b"x" * 999),))


def both_ways(codec, device, cases, level):
    batch = codec.encode([case.on(device) for case in cases], level)
    expected = check_batch(batch, cases, level)
    stored = stored_in(batch, cases, device)
    out = [torch.empty(len(case.data), dtype=torch.uint8, device=device) for case, _ in stored]
    codec.decode([one for _, one in stored], out)
    assert codec.equal(out, [tensor(case.data, device) for case, _ in stored]) == [True] * len(out)
    return expected


@pytest.mark.parametrize("level", LEVELS)
def test_frames_of_every_type_are_native_ones_and_come_back(codec, device, level):
    coded = both_ways(codec, device, list(plain_frames(3000)), level)
    if level is not Level.FAST:
        assert any(one.predictor is Predictor.LEVELS for one in coded)
        assert any(Mode.RANS in one.modes for one in coded)


@pytest.mark.parametrize("level", LEVELS)
def test_frames_that_are_hard_to_foresee(codec, device, level):
    coded = both_ways(codec, device, list(odd_frames()), level)
    assert {mode for one in coded for mode in one.modes} >= {Mode.RAW, Mode.CONSTANT, Mode.BITS}
    assert any(one.layout is Layout.RAW for one in coded)


@pytest.mark.parametrize("level", LEVELS)
def test_frames_from_bases(codec, device, level):
    cases = list(delta_frames(3000))
    coded = both_ways(codec, device, cases, level)
    assert any(one.is_base for one in coded)
    assert {one.predictor for one in coded} >= {Predictor.XOR, Predictor.NARROWED, Predictor.WIDENED}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_frames_of_several_chunks(codec, device, level):
    both_ways(codec, device, [*plain_frames(140_000), *delta_frames(70_001)], level)


@pytest.mark.parametrize("level", LEVELS)
def test_what_native_wrote_with_huffman_codes_is_read(codec, device, level):
    native = NativeEngine()
    cases = [Case(weights(3000, element), element) for element in FLOATS]
    coded = [native.encode(case.data, case.element, level=level) for case in cases]
    before = codec.host_planes
    out = [torch.empty(len(case.data), dtype=torch.uint8, device=device) for case in cases]
    codec.decode([stored_of(case, one, device) for case, one in zip(cases, coded, strict=True)], out)
    assert [one.cpu().numpy().tobytes() for one in out] == [case.data for case in cases]
    assert codec.host_planes - before == sum(mode is Mode.HUFFMAN for one in coded for mode in one.modes)


def test_tensors_may_begin_anywhere(codec, device, rooms):
    cases = [Case(weights(500, element), element) for element in FLOATS]
    frames = [case.on(device) for case in cases]
    moved = [
        type(one)(rooms.holding(case.data, 1 + i), one.element)
        for i, (case, one) in enumerate(zip(cases, frames, strict=True))
    ]
    batch = codec.encode(moved, Level.FAST)
    check_batch(batch, cases, Level.FAST)
    stored = stored_in(batch, cases, device)
    out = [rooms.empty(len(case.data), 3 + i) for i, (case, _) in enumerate(stored)]
    codec.decode([one for _, one in stored], out)
    assert [one.cpu().numpy().tobytes() for one in out] == [case.data for case, _ in stored]


def test_launches_do_not_grow_with_the_batch(codec, device):
    element = ElementType.BF16
    cases = [Case(moments(20, 40, element, seed), element, Grid(40)) for seed in range(12)]

    def launches(some):
        before = sum(codec.launches.values())
        codec.encode([case.on(device) for case in some], Level.FAST)
        return sum(codec.launches.values()) - before

    assert launches(cases) == launches(cases[:1])


def test_an_empty_batch(codec):
    batch = codec.encode([], Level.BALANCED)
    assert batch.frames == ()
    assert len(batch.payload) == 0
    codec.decode([], [])
