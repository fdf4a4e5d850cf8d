"""Split and join against the oracle: every type, predictor and rotation, sizes around a tile."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from s4weights.codec import levels, prediction
from s4weights.codec.engines.payload import base_layout
from s4weights.codec.engines.plan import sample_index
from s4weights.codec.gpu.interface import DeviceFrame
from s4weights.codec.gpu.jobs import Candidate, DeviceLevels, Job
from s4weights.codec.gpu.splitting import Planes, count_planes, join, kinds_of, plane_row, read_counts, split
from s4weights.codec.levels import Levels
from s4weights.codec.planes import split_planes
from s4weights.codec.types import ElementType, Grid, Layout, Predictor
from tests.codec.engines.bodies import FLOATS, TYPED
from tests.gpu.planes import KINDS

SIZES = (1, 15, 16, 17, 1023, 1024, 5000)
WITH_BASE = [
    (element, predictor)
    for element in TYPED
    for predictor in Predictor
    if predictor.needs_base and predictor.fits(element)
]


def elements(element, count, seed=0):
    """Any bits at all."""
    return np.random.default_rng(seed).bytes(count * element.width)


def both_ways(launcher, rooms, element, cases):
    """cases: data, candidate, base, and what the oracle splits. In one launch each way."""
    work, kept = [], []
    for data, candidate, base, _ in cases:
        frame = DeviceFrame(rooms.holding(data), element)
        bases = () if base is None else (rooms.holding(base),)
        work.append((Job(frame, frame.data, bases), candidate))
    found = split(launcher, work, sampled=False)
    rows = {}
    for (data, candidate, base, rest), planes, (job, _) in zip(cases, found, work, strict=True):
        octets = planes.data.cpu().numpy()
        split_ones = [octets[k * planes.stride :][: planes.count].tobytes() for k in range(element.width)]
        assert split_ones == split_planes(rest, element, candidate.layout)
        out = rooms.empty(len(data))
        kept.append((out, data))
        row = plane_row(out, element, candidate, planes, job.bases[0] if base is not None else None)
        rows.setdefault(kinds_of(candidate, element), []).append(row)
    join(launcher, rows)
    for out, data in kept:
        assert out.cpu().numpy().tobytes() == data


@pytest.mark.parametrize("element", TYPED, ids=lambda one: one.name)
def test_planes_of_every_type_and_rotation(launcher, rooms, element):
    layouts = list(Layout)[2:] if element.is_float else [Layout.PLANES]
    cases = [
        (data := elements(element, n, n), Candidate(Predictor.NONE, layout), None, data)
        for n in SIZES
        for layout in layouts
    ]
    both_ways(launcher, rooms, element, cases)


@pytest.mark.parametrize(("element", "predictor"), WITH_BASE, ids=lambda one: one.name)
def test_planes_from_a_base(launcher, rooms, element, predictor):
    candidate = Candidate(predictor, base_layout(element, predictor), base=0)
    cases = []
    for n in SIZES:
        data, base = (
            elements(element, n, n),
            np.random.default_rng(n + 1).bytes(predictor.base_kind.base_bytes(n * element.width)),
        )
        # Near, equal, and far.
        if predictor is Predictor.DIFFERENCE and n > 100:
            base = data[: len(data) // 2] + base[len(data) // 2 :]
        cases.append((data, candidate, base, prediction.subtract(data, element, predictor, base)))
    both_ways(launcher, rooms, element, cases)


@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
def test_planes_with_a_base_only(launcher, rooms, element):
    cases = []
    for n, base, layout in zip(SIZES, (0, 2, 65_534, 256, 32_768, 4_660, 30_000), (2, 3, 4, 5, 2, 3, 5), strict=True):
        data = elements(element, n, n)
        rest = levels.subtract(data, element, Levels(base).predict(element, np.arange(n)))
        cases.append((data, Candidate(Predictor.LEVELS, Layout(layout), base), None, rest))
    both_ways(launcher, rooms, element, cases)


@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
def test_planes_with_levels_and_products(launcher, rooms, device, element):
    rng = np.random.default_rng(5)
    cases = []
    for n, columns, column, products, layout in (
        (1, 16, 15, 0, 2),
        (1000, 33, 7, 1, 3),
        (1024, 16, 0, 8, 4),
        (5000, 700, 650, 3, 5),
    ):
        rows = -(-(column + n) // columns)
        factors = [rng.integers(-128, 128, (1 + products, size)) for size in (rows, columns)]
        # Rows that nothing is predicted for.
        factors[0][0, ::3] = -128
        model = Levels(12_344, Grid(columns, column), *factors)
        stored = [rooms.holding(plane) for plane in model.planes()]
        used = DeviceLevels(*stored, rows, columns, column, products, model.base)
        data = elements(element, n, n)
        rest = levels.subtract(data, element, model.predict(element, np.arange(n)))
        cases.append((data, Candidate(Predictor.LEVELS, Layout(layout), model.base, used), None, rest))
    both_ways(launcher, rooms, element, cases)


@pytest.mark.parametrize("element", [ElementType.U8, *FLOATS], ids=lambda one: one.name)
def test_samples_are_gathered_where_the_document_says(launcher, rooms, element):
    layout = Layout.ROTATED_1 if element.is_float else Layout.PLANES
    candidate = Candidate(Predictor.NONE, layout)
    datas = [elements(element, n, n) for n in (16_384, 16_385, 20_000, 70_001, 131_072)]
    frames = [DeviceFrame(rooms.holding(data), element) for data in datas]
    found = split(launcher, [(Job(one, one.data, ()), candidate) for one in frames], sampled=True)
    for data, planes in zip(datas, found, strict=True):
        index = sample_index(len(data) // element.width)
        sample = np.frombuffer(data, dtype=f"<u{element.width}")[index].tobytes()
        octets = planes.data.cpu().numpy()
        assert [octets[k * planes.stride :][: planes.count].tobytes() for k in range(element.width)] == split_planes(
            sample, element, layout
        )


def test_histograms(launcher, rooms):
    planes = [kind(size) for kind in KINDS for size in (1, 1023, 4096, 4097, 100_003)] + [bytes(9000), b"\xff" * 9000]
    kept = [rooms.holding(plane) for plane in planes]
    found = read_counts(count_planes(launcher, [(room.data_ptr(), len(room)) for room in kept]))
    for counts, plane in zip(found, planes, strict=True):
        assert counts.tolist() == np.bincount(np.frombuffer(plane, dtype=np.uint8), minlength=256).tolist()


def test_planes_that_lie_apart_are_joined(launcher, rooms):
    """With a stride that is not their size, as in the decoder."""
    element, n = ElementType.BF16, 1000
    data = elements(element, n)
    room = rooms.empty(4096)
    for k, plane in enumerate(split_planes(data, element, Layout.ROTATED_2)):
        room[2048 * k :][:n].copy_(torch.frombuffer(bytearray(plane), dtype=torch.uint8))
    out = rooms.empty(len(data))
    candidate = Candidate(Predictor.NONE, Layout.ROTATED_2)
    row = plane_row(out, element, candidate, Planes(room, 2048, n), None)
    join(launcher, {kinds_of(candidate, element): [row]})
    assert out.cpu().numpy().tobytes() == data
