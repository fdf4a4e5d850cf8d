"""What a writer looks at, and what it chooses by that."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec.engines.plan import make_plan, sample_index
from s4weights.codec.engines.plane_modes import Effort, choose_mode, encode_level_planes, encode_plane
from s4weights.codec.entropy import Sample, decode_plane, histogram, rans
from s4weights.codec.types import NO_GRID, ElementType, Grid, Layout, Level, Mode
from tests.codec.engines.bodies import moments, symbols, weights


def test_a_short_frame_is_looked_at_whole():
    assert sample_index(16_384).tolist() == list(range(16_384))


def test_of_a_long_frame_32_runs_are_looked_at_each_at_another_place_of_its_share():
    index = sample_index(1024 * 128)
    assert len(index) == 32 * 128
    runs = index[::128] // 128
    assert runs[:4].tolist() == [0, 45, 90, 103]
    assert sorted(run % 32 for run in runs) == list(range(32))
    # Shares of 5 runs, and three runs more, of which the first is looked at.
    assert (sample_index(163 * 128 + 7)[::128] // 128).tolist() == [5 * g + 13 * g % 5 for g in range(32)] + [161]


@pytest.mark.parametrize("n", [16_385, 100_000, 65_536 + 255, 524_288, 1 << 20])
def test_what_is_looked_at_lies_in_the_frame_and_is_of_one_size(n):
    index = sample_index(n)
    assert (np.diff(index) > 0).all()
    assert index[-1] < n
    assert 32 * 128 <= len(index) <= 40 * 128


def mode_of(plane: bytes, effort: Effort) -> Mode:
    choice = choose_mode(Sample(histogram(plane), len(plane)), effort)
    mode, stored = encode_plane(plane, choice, effort)
    assert decode_plane(mode, stored, len(plane)) == plane
    assert mode in (choice.mode, Mode.RAW, Mode.CONSTANT)
    return mode


RNG = np.random.default_rng(0)
NOISE = RNG.bytes(20_000)
# 250 of 256 values: entropy coders would save less than a 128th.
NEARLY_NOISE = RNG.integers(0, 250, 20_000, dtype=np.uint8).tobytes()
COIN = RNG.integers(0, 2, 20_000, dtype=np.uint8).tobytes()
SIXTEEN = RNG.integers(100, 116, 20_000, dtype=np.uint8).tobytes()
BELL = (RNG.normal(124, 2.5, 20_000).clip(0, 255)).astype(np.uint8).tobytes()
RARE = (RNG.random(20_000) < 0.02).astype(np.uint8).tobytes()


@pytest.mark.parametrize(
    ("plane", "fast", "balanced", "small"),
    [
        (b"x", Mode.RAW, Mode.RAW, Mode.RAW),
        (b"xxxx", Mode.RAW, Mode.RAW, Mode.RAW),
        (b"xxxxx", Mode.CONSTANT, Mode.CONSTANT, Mode.CONSTANT),
        (b"x" * 70_000, Mode.CONSTANT, Mode.CONSTANT, Mode.CONSTANT),
        (NOISE, Mode.RAW, Mode.RAW, Mode.RAW),
        (NEARLY_NOISE, Mode.RAW, Mode.RAW, Mode.RAW),
        (COIN, Mode.BITS, Mode.BITS, Mode.BITS),
        (SIXTEEN, Mode.NIBBLES, Mode.HUFFMAN, Mode.RANS),
        (BELL, Mode.NIBBLES, Mode.HUFFMAN, Mode.RANS),
        # Huffman has no code of less than one bit.
        (RARE, Mode.BITS, Mode.RANS, Mode.RANS),
        (symbols(20_000, 0.9), Mode.BITS, Mode.RANS, Mode.RANS),
    ],
    ids=["one", "four", "five", "constant", "noise", "nearly noise", "coin", "sixteen", "bell", "rare", "mostly one"],
)
def test_planes_are_stored_as(plane, fast, balanced, small):
    assert [mode_of(plane, Effort(level)) for level in Level] == [fast, balanced, small]
    without = [Mode.RANS if mode is Mode.HUFFMAN else mode for mode in (fast, balanced, small)]
    assert [mode_of(plane, Effort(level, huffman=False)) for level in Level] == without


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
@pytest.mark.parametrize(
    "plane", [COIN, SIXTEEN, BELL, symbols(20_000, 0.35)], ids=["coin", "sixteen", "bell", "skewed"]
)
def test_an_estimate_from_the_whole_plane_is_near_what_is_stored(plane, level):
    choice = choose_mode(Sample(histogram(plane), len(plane)), Effort(level))
    _, stored = encode_plane(plane, choice, Effort(level))
    assert abs(len(stored) - choice.estimate) <= 100 + len(plane) // 200


@pytest.mark.parametrize(
    ("rows", "columns", "modes"),
    [
        (b"\x05" * 3000, symbols(3000, 0.5), [Mode.CONSTANT, Mode.RANS]),
        (symbols(1024, 0.5), symbols(2000, 0.5), [Mode.RANS, Mode.RANS]),
        (symbols(1023, 0.5), symbols(2000, 0.5), [Mode.RAW, Mode.RAW]),
        (NOISE[:3000], symbols(1024, 0.5), [Mode.RAW, Mode.RANS]),
        (b"\x05", symbols(20, 0.5), [Mode.CONSTANT, Mode.RAW]),
    ],
    ids=["constant", "long enough", "one is short", "noise", "few"],
)
def test_levels_are_stored_as(rows, columns, modes):
    found = encode_level_planes([rows, columns])
    assert [mode for mode, _ in found] == modes
    for plane, (mode, stored) in zip((rows, columns), found, strict=True):
        assert decode_plane(mode, stored, len(plane)) == plane
    assert encode_level_planes([]) == []


def sampled(plane: bytes) -> Sample:
    return Sample(histogram(plane[:5_000]), len(plane))


@pytest.mark.parametrize("level", Level, ids=lambda one: one.value)
def test_a_plane_that_surprises_is_chosen_for_again_from_the_whole(level):
    # A calm start promises little; then sixteen values.
    plane = bytes(5_000) + SIXTEEN
    choice = choose_mode(sampled(plane), Effort(level))
    assert (choice.mode, choice.is_whole) == (Mode.BITS, False)
    expected = choose_mode(Sample(histogram(plane), len(plane)), Effort(level))
    assert expected.is_whole
    assert expected.estimate > choice.estimate
    found = encode_plane(plane, choice, Effort(level))
    assert found == encode_plane(plane, expected, Effort(level))
    assert decode_plane(*found, len(plane)) == plane


def test_one_exception_in_64_is_no_surprise():
    most = 16_000 // 64
    for exceptions, mode in ((most, Mode.BITS), (most + 1, Mode.RANS)):
        plane = bytes(16_000 - exceptions) + b"\x07" * exceptions
        assert encode_plane(plane, choose_mode(sampled(plane), Effort(Level.SMALL)), Effort(Level.SMALL))[0] is mode


def test_more_than_8191_exceptions_in_a_block_are_too_many():
    noise = RNG.integers(1, 256, 65_536, dtype=np.uint8)
    # The whole plane's histogram: bits never promise that much, so by hand.
    choice = choose_mode(Sample(histogram(bytes(131_072)), 131_072), Effort(Level.FAST))
    assert (choice.mode, choice.is_whole) == (Mode.BITS, True)
    for exceptions, mode in ((8_191, Mode.BITS), (8_192, Mode.RAW)):
        plane = bytes(65_536 - exceptions) + noise[:exceptions].tobytes() + bytes(65_536)
        assert encode_plane(plane, choice, Effort(Level.FAST))[0] is mode


@pytest.mark.parametrize(
    ("element", "level", "layouts"),
    [
        (ElementType.F32, Level.FAST, {Layout.ROTATED_1}),
        (ElementType.F32, Level.BALANCED, {Layout.ROTATED_1}),
        (ElementType.F64, Level.FAST, {Layout.ROTATED_1}),
        (ElementType.F64, Level.BALANCED, {Layout.ROTATED_4}),
        (ElementType.F32, Level.SMALL, {Layout(k) for k in range(2, 6)}),
        (ElementType.I32, Level.SMALL, {Layout.PLANES}),
    ],
)
def test_layouts_that_a_level_allows(element, level, layouts):
    data = weights(20_000, element) if element.is_float else symbols(80_000, 0.3)
    plan = make_plan(data, element, NO_GRID, Effort(level))
    assert plan.layout in layouts
    if level is Level.FAST or Layout.PLANES in layouts:
        assert plan.levels is None
    if layouts == {Layout.ROTATED_4}:
        assert plan.levels is not None
        assert plan.levels.grid == NO_GRID


def test_the_estimate_counts_descriptors_head_and_levels():
    data = moments(200, 64, ElementType.F32)
    plan = make_plan(data, ElementType.F32, Grid(64, 0), Effort(Level.BALANCED))
    assert plan.levels is not None
    level_bytes = (1 + plan.levels.products) * (200 + 64)
    assert plan.estimate == sum(one.estimate for one in plan.choices) + 4 * 8 + 12 + level_bytes + 16
    plain = make_plan(data, ElementType.F32, NO_GRID, Effort(Level.BALANCED))
    assert plain.estimate == sum(one.estimate for one in plain.choices) + 4 * 8
    assert plan.estimate < plain.estimate


def test_a_sample_of_few_symbols_is_not_believed():
    counts = histogram(symbols(1_000, 0.3))
    whole, part = Sample(counts, 1_000), Sample(counts, 100_000)
    assert whole.surplus_bytes == 0
    kinds = np.count_nonzero(counts)
    assert part.surplus_bytes == (kinds - 1) * 100_000 * 92 // (1024 * 1_000)
    assert rans.promise(part) > 100 * (rans.promise(whole) - 32 - 2 * kinds - 132)
