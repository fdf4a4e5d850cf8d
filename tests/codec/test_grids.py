"""Rows and columns of frames: from shapes of tensors to the column of a frame's first element."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save

from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.frames import columns_of
from s4weights.codec.limits import FRAME_BYTES
from s4weights.codec.types import NO_GRID, ElementType, Frame, Grid, Level, Predictor
from tests.codec.engines.bodies import moments
from tests.codec.samples import NATIVE, safetensors_raw, torch_file


def frames_of(body: bytes, sizes: int = 0) -> list[Frame]:
    encoder = Encoder()
    step = sizes or len(body)
    planned = [encoder.plan(body[at : at + step]) for at in range(0, len(body), step)]
    return [frame for frames in [*planned, encoder.plan_end()] for frame in frames]


def typed(body: bytes, sizes: int = 0) -> list[tuple[int, Grid]]:
    """Bytes and grid of the frames with a type."""
    return [(len(f.data), f.grid) for f in frames_of(body, sizes) if f.element is not ElementType.BYTES]


def one(shape: list[int], dtype: str = "F32", width: int = 4) -> bytes:
    count = int(np.prod(shape))
    data = np.random.default_rng(0).normal(size=count).astype(f"<f{max(width, 2)}").tobytes()[: count * width]
    return safetensors_raw({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, count * width]}}, data)


@pytest.mark.parametrize(
    ("shape", "columns"),
    [
        ((), 0),
        ((5_000,), 0),
        ((100, 64), 64),
        ((1, 5_000), 5_000),
        ((5_000, 1), 5_000),
        # 3 x 3 of a convolution are taken together with its channels; 4 x 4 and 5 x 5 stand alone.
        ((128, 64, 3, 3), 576),
        ((128, 64, 1, 1), 64),
        ((128, 64, 5, 5), 25),
        ((128, 8, 4, 4), 16),
        ((128, 2, 16), 16),
        ((128, 2, 15), 30),
        ((2, 3, 2), 12),
        ((0, 64), 0),
        ((64, 0), 0),
    ],
)
def test_columns_are_the_last_dimension_and_those_before_it_while_short(shape, columns):
    assert columns_of(shape) == columns


@pytest.mark.parametrize("sizes", [0, 1_000, 70_001])
@pytest.mark.parametrize(
    ("shape", "grids"),
    [
        ([5_000], [NO_GRID]),
        ([80, 64], [Grid(64, 0)]),
        ([40, 16, 3, 3], [Grid(144, 0)]),
        # 262,144 elements a frame: 262,144 mod 1000 is 144.
        ([600, 1_000], [Grid(1_000, 0), Grid(1_000, 144), Grid(1_000, 288)]),
        ([600_000], [NO_GRID] * 3),
        ([300, 64, 5, 5], [Grid(25, 0), Grid(25, 262_144 % 25)]),
    ],
    ids=str,
)
def test_frames_of_a_tensor_have_its_columns_and_their_first_column(shape, grids, sizes):
    assert [grid for _, grid in typed(one(shape), sizes)] == grids


def test_types_that_are_not_floats_have_no_columns():
    assert typed(one([100, 64], "I32")) == [(25_600, NO_GRID)]
    assert typed(one([100, 64], "F8_E4M3", 1)) == [(6_400, NO_GRID)]


def test_a_frame_of_several_tensors_has_no_columns():
    body = save({"a": torch.randn(40, 64), "b": torch.randn(40, 64), "c": torch.randn(300, 64)})
    # Ten KiB each are too little for a frame of their own; the third ends it.
    assert typed(body) == [(2 * 10_240 + 76_800, NO_GRID)]


def test_a_tensor_that_follows_a_long_one_begins_at_its_own_first_column():
    body = save({"a": torch.randn(300, 64), "b": torch.randn(500, 48)})
    assert typed(body) == [(76_800, Grid(64, 0)), (96_000, Grid(48, 0))]


def test_frames_behind_one_of_several_tensors_lie_in_their_own_again():
    rows = FRAME_BYTES // 4 // 64
    body = save({"a": torch.randn(40, 64), "b": torch.randn(rows, 64)})
    # The first frame holds both; what is left lies in b alone, where 40 rows are missing of its own frame.
    assert typed(body) == [(FRAME_BYTES, NO_GRID), (40 * 64 * 4, Grid(64, 0))]
    body = save({"a": torch.randn(1_001), "b": torch.randn(rows, 64)})
    first = FRAME_BYTES // 4 - 1_001
    assert typed(body) == [(FRAME_BYTES, NO_GRID), (1_001 * 4, Grid(64, first % 64))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_tensors_in_a_torch_file_have_columns(dtype):
    found = typed(torch_file({"weight": torch.randn(200, 72).to(dtype), "bias": torch.randn(9_000).to(dtype)}))
    assert [grid for _, grid in found] == [Grid(72, 0), NO_GRID]


def test_a_transposed_tensor_has_the_columns_of_its_memory():
    assert typed(torch_file({"w": torch.randn(200, 72).t()})) == [(57_600, Grid(72, 0))]
    channels_last = torch.randn(40, 24, 3, 3).to(memory_format=torch.channels_last)
    assert typed(torch_file({"w": channels_last})) == [(34_560, Grid(24, 0))]


def test_a_storage_of_which_a_tensor_shows_a_part_has_no_columns():
    base = torch.randn(200 * 64 + 7)
    assert typed(torch_file({"view": base[7:].view(200, 64)})) == [(51_228, NO_GRID)]
    # The whole is there too, and says what the memory looks like.
    table = torch.randn(200, 64)
    assert typed(torch_file({"row": table[3], "table": table})) == [(51_200, Grid(64, 0))]


def test_a_body_that_ends_within_a_tensor_keeps_its_columns():
    assert typed(one([100, 64])[:-1_001]) == [(25_600 - 1_004, Grid(64, 0))]


@pytest.mark.parametrize("level", [Level.BALANCED, Level.SMALL], ids=lambda one: one.value)
def test_moments_that_are_cut_anywhere_gain_by_their_columns(level):
    """The column of the first element is right: with another one the levels would say nothing."""
    data = moments(600, 1_000, ElementType.F32)
    body = safetensors_raw({"v": {"dtype": "F32", "shape": [600, 1_000], "data_offsets": [0, len(data)]}}, data)
    for frame in frames_of(body):
        if frame.grid == NO_GRID:
            continue
        right, wrong = (
            encode_frame(
                Frame(0, frame.element, frame.data, Grid(1_000, (frame.grid.column + shift) % 1_000)), NATIVE, level
            )
            for shift in (0, 500)
        )
        assert right.predictor is Predictor.LEVELS
        assert int.from_bytes(right.payload[4:8], "little") == frame.grid.column
        assert right.stored_bytes < wrong.stored_bytes
