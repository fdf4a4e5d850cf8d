"""A batch with something of everything: what runs each time, where the other cases take minutes to interpret."""

from __future__ import annotations

from s4weights.codec.types import BaseKind, ElementType, Grid, Level
from tests.codec.engines.bodies import moments, weights
from tests.gpu.frames import Case
from tests.gpu.test_frames import both_ways

BF16, F32 = ElementType.BF16, ElementType.F32


def test_one_batch_there_and_back(codec, device):
    data = weights(1500, F32)
    cases = [
        Case(weights(1500, BF16), BF16),
        Case(data, F32, bases=((BaseKind.SAME, weights(1500, F32, 1)), (BaseKind.SAME, data))),
        Case(moments(33, 44, F32, products=2), F32, Grid(44)),
        Case(weights(1500, BF16), BF16, bases=((BaseKind.WIDER, data),)),
        Case(b"some bytes " * 30, ElementType.BYTES),
    ]
    both_ways(codec, device, cases, Level.BALANCED)
    both_ways(codec, device, cases[:2], Level.FAST)
    assert codec.host_frames
