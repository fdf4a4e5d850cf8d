"""Samples are spread, and ranges hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec.types import ElementType, Segment
from s4weights.measure.bootstrap import deviations, interval
from s4weights.measure.choose import MIN_PIECES, draw, shares, spread
from s4weights.measure.components import Component, Run
from s4weights.measure.synthetic import SyntheticSource

MIB = 1 << 20
SOURCE = SyntheticSource()


def component(*sizes: int) -> Component:
    at, runs = 0, []
    for size in sizes:
        runs.append(Run(SOURCE, at, size, (Segment(at, size, ElementType.F32),)))
        at += size
    return Component.of("weights", ElementType.F32, runs)


def test_every_byte_is_drawn_as_often_as_any_other():
    one = component(100_000, 3 * MIB, 500_000, 2 * MIB + 4)
    rng = np.random.default_rng(0)
    counts: dict[tuple[int, int], int] = {}
    for _ in range(4000):
        for piece in draw(one, 3, rng):
            place = (piece.run.start, piece.offset)
            counts[place] = counts.get(place, 0) + 1
    for piece in one.all_pieces():
        expected = 12_000 * piece.length / one.logical_bytes
        assert abs(counts.get((piece.run.start, piece.offset), 0) - expected) < 5 * (expected + 1) ** 0.5


def test_where_all_may_be_drawn_each_is_once():
    one = component(3 * MIB, 100_000)
    assert draw(one, 4, np.random.default_rng(0)) == spread(one, 9) == list(one.all_pieces())


def test_spread_pieces_are_at_equal_distances():
    assert [piece.offset // MIB for piece in spread(component(100 * MIB), 4)] == [12, 37, 62, 87]


@pytest.mark.parametrize("limit", [8 * MIB, 20 * MIB, 64 * MIB, 1000 * MIB])
def test_shares_keep_to_the_limit_and_leave_some_for_the_small(limit):
    several = [component(400 * MIB), component(100 * MIB), component(9 * MIB), component(100_000)]
    counts = shares(several, limit)
    read = sum(count * one.drawn_bytes for one, count in zip(several, counts, strict=True))
    assert read <= limit
    assert counts[0] >= 2 * counts[1] or limit < 20 * MIB
    assert all(count >= min(MIN_PIECES, one.pieces) for one, count in zip(several, counts, strict=True))
    assert (counts == [one.pieces for one in several]) is (limit == 1000 * MIB)


def test_without_room_nothing_is_said():
    assert shares([component(400 * MIB), component(100 * MIB)], 3 * MIB) == [2, 0]


@pytest.mark.parametrize(("count", "unseen"), [(3, 1.0), (8, 1.0), (30, 0.5)])
def test_nine_ranges_in_ten_hold_the_mean(count, unseen):
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        whole = rng.normal(0.8, 0.05, round(count / (1 - unseen)) if unseen < 1 else count)
        truth = 0.8 if unseen == 1 else whole.mean()
        values = rng.choice(whole, count, replace=False)
        low, high = interval(deviations(values, unseen, rng), count - 1)
        held += values.mean() + low <= truth <= values.mean() + high
    assert 0.84 <= held / 400 <= 0.96


def test_nothing_is_uncertain_where_all_was_seen():
    assert not deviations(np.array([1.0, 2.0]), 0.0, np.random.default_rng(0)).any()
