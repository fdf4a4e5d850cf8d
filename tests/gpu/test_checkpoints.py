"""The device as an engine, on real checkpoints: trained here, and those of the benchmarks where they have been made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from s4weights.codec.encode import Encoder
from s4weights.codec.types import BaseKind, ElementType, Frame, Level
from tests.gpu.frames import Case
from tests.gpu.test_frames import LEVELS, both_ways

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
# Of a frame, where it is cut so that interpreting it takes seconds.
ELEMENTS = 20_000


@pytest.fixture(scope="module")
def bodies(tmp_path_factory) -> list[bytes]:
    """Two checkpoints of one run: bf16 weights, fp32 moments."""
    sys.path.insert(0, str(BENCHMARKS))
    from train_gpt import save_checkpoints

    paths = save_checkpoints(tmp_path_factory.mktemp("trained"), "tiny", ["mixed"], [20, 21])
    return [path.read_bytes() for path in paths if path.suffix == ".pt"]


def frames_of(body: bytes) -> list[Frame]:
    encoder = Encoder()
    return [frame for frame in [*encoder.plan(body), *encoder.plan_end()] if frame.element is not ElementType.BYTES]


def some_of(body: bytes, base: bytes | None = None) -> Iterator[Case]:
    """Frames of all sizes and types, each cut. base: a body of the same tensors in the same places."""
    frames = sorted(frames_of(body), key=lambda frame: (frame.element, len(frame.data)))
    for frame in frames[:: max(1, len(frames) // 12)]:
        size = min(len(frame.data), ELEMENTS * frame.element.width)
        data = bytes(frame.data[:size])
        bases = () if base is None else ((BaseKind.SAME, base[frame.start : frame.start + size]),)
        yield Case(data, frame.element, frame.grid, bases)


@pytest.mark.parametrize("level", LEVELS)
def test_slices_of_a_trained_checkpoint(codec, device, bodies, level):
    coded = both_ways(codec, device, list(some_of(bodies[0])), level)
    assert {one.element for one in coded} >= {ElementType.BF16, ElementType.F32}


def test_slices_of_a_checkpoint_from_the_one_before(codec, device, bodies):
    coded = both_ways(codec, device, list(some_of(bodies[1], bodies[0])), Level.BALANCED)
    assert any(one.base is not None for one in coded)


@pytest.mark.slow
def test_whole_frames_of_the_benchmarks(codec, device):
    paths = sorted((BENCHMARKS / "data").glob("*.safetensors")) + sorted((BENCHMARKS / "data").glob("*-201.pt"))
    if not paths:
        pytest.skip("benchmarks/data is empty: python benchmarks/make_data.py")
    cases = []
    for path in paths:
        with path.open("rb") as file:
            frames = frames_of(file.read(24 << 20))
        # The last one ends with what was read.
        cases += [Case(bytes(one.data), one.element, one.grid) for one in islice(frames[:-1], 0, None, 5)]
    for level in (Level.BALANCED, Level.SMALL):
        both_ways(codec, device, cases, level)
