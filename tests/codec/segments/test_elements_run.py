"""Bodies without a format that we know: typed by content, in the step of their elements, and the same in any pieces."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from s4weights.codec.content import SAMPLE_BYTES
from s4weights.codec.segments import open_segmenter
from s4weights.codec.sniff import sniff
from s4weights.codec.types import ElementType, Kind
from tests.codec.samples import pack, safetensors_raw, unpack
from tests.codec.segments.cutting import cut, typed_bytes
from tests.codec.segments.real_files import torch_legacy, torch_script

MIB = 1 << 20
# Bytes in front of the second sample that says the same.
UNTYPED = (16 << 10) + SAMPLE_BYTES


def octets(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def weights(count: int, dtype: torch.dtype = torch.float32) -> bytes:
    torch.manual_seed(0)
    return octets((0.02 * torch.randn(count)).to(dtype))


TEXT = Path(__file__).read_bytes()
FLAT = weights(600_000)
BODIES = {
    "a dump of fp32": (FLAT, {"F32"}),
    "a dump of bf16": (weights(MIB, torch.bfloat16), {"BF16"}),
    "a dump of fp64": (octets(torch.randn(150_000, dtype=torch.float64)), {"F64"}),
    "behind a header of odd length": (b"header" + TEXT[:1_001] + FLAT, {"F32"}),
    "a flat shard of two types": (weights(MIB, torch.bfloat16) + FLAT, {"BF16", "F32"}),
    "text, then numbers": (TEXT * 40 + FLAT, {"F32"}),
    "arrays in a pickle": (pickle.dumps([np.frombuffer(FLAT, "f4"), TEXT[:77], np.frombuffer(FLAT, "f4")], 4), {"F32"}),
    "with a hole": (FLAT[: 9 * UNTYPED] + bytes(50_000) + FLAT, {"F32"}),
}


@pytest.mark.parametrize("name", BODIES)
def test_most_of_it_is_typed_and_all_of_it_comes_back(name):
    body, types = BODIES[name]
    segments = cut(body)
    assert {one.element.name for one in segments} == {"BYTES", *types}
    assert typed_bytes(segments) > 0.85 * (len(body) - 40 * len(TEXT) * ("text" in name))
    container, _ = pack(body)
    assert unpack(container) == body
    assert len(container) < 0.9 * len(body)


def test_a_dump_is_stored_nearly_as_small_as_a_tensor():
    named = safetensors_raw({"w": {"dtype": "F32", "shape": [600_000], "data_offsets": [0, len(FLAT)]}}, FLAT)
    assert len(pack(FLAT)[0]) < 1.01 * len(pack(named)[0])


@pytest.mark.parametrize("skipped", range(5))
def test_elements_keep_their_step(skipped):
    body = b"#" * skipped + FLAT
    for segment in cut(body):
        if segment.element is ElementType.F32:
            assert segment.start % 4 == skipped % 4


NEITHER = {
    "text": TEXT * 40,
    "noise": np.random.default_rng(0).bytes(300_000),
    "zeros": bytes(300_000),
    "one byte": b"x",
    "a short dump": FLAT[: UNTYPED - 1],
}


@pytest.mark.parametrize("name", NEITHER)
def test_what_holds_no_numbers_is_one_run_of_bytes(name):
    body = NEITHER[name]
    assert [(one.start, one.length, one.element) for one in cut(body)] == [(0, len(body), ElementType.BYTES)]
    assert unpack(pack(body)[0]) == body


@pytest.mark.parametrize("name", BODIES)
@given(sizes=st.lists(st.integers(1, 90_000), min_size=1, max_size=20))
@settings(max_examples=6, deadline=None)
def test_random_pieces(name, sizes):
    body = BODIES[name][0][:400_000]
    assert cut(body, sizes * 9) == cut(body)


def test_byte_by_byte():
    body = b"abc" + FLAT[: 5 * UNTYPED]
    assert cut(body, [1] * len(body)) == cut(body)


def test_what_follows_a_file_is_looked_at_too():
    """Behind the last tensor of a header, behind a damaged pickle, and behind an archive."""
    file = safetensors_raw({"w": {"dtype": "BF16", "shape": [9], "data_offsets": [0, 18]}}, bytes(18))
    legacy = torch_legacy({"a": torch.zeros(9)})[:-200]
    for head in (file, legacy, torch_script(9)):
        body = head + FLAT
        found = cut(body, [70_000] * 99)
        assert found == cut(body)
        assert sum(one.length for one in found if one.element is ElementType.F32) > 0.9 * len(FLAT)
        assert unpack(pack(body)[0]) == body


def test_a_body_is_recognised_by_its_content():
    assert sniff(FLAT) is Kind.ELEMENTS
    assert sniff(b"header" + TEXT[:1_001] + FLAT) is Kind.ELEMENTS
    assert sniff(FLAT[:SAMPLE_BYTES], complete=True) is Kind.ELEMENTS
    for body in (TEXT * 40, np.random.default_rng(0).bytes(300_000), bytes(300_000), FLAT[:100], TEXT * 9 + FLAT):
        assert sniff(body, complete=True) is Kind.UNKNOWN


@pytest.mark.parametrize("name", ["text", "noise"])
def test_looking_costs_little(name):
    """100 MB a second at the very least, on a busy machine; the codec itself takes longer."""
    body = memoryview(NEITHER[name] * (16 * MIB // len(NEITHER[name])))
    segmenter = open_segmenter(Kind.UNKNOWN)
    started = time.thread_time()
    for at in range(0, len(body), MIB):
        segmenter.feed(body[at : at + MIB])
    assert time.thread_time() - started < len(body) / 100e6


def test_bodies_that_change_at_every_sample_are_cut_in_bounded_time():
    parts = [FLAT[: 16 << 10], weights(8 << 10, torch.bfloat16), (TEXT * 9)[: 16 << 10], b"x" + FLAT[: 16 << 10]]
    body = b"".join(parts) * 60
    started = time.thread_time()
    assert cut(body) == cut(body, [100_001] * 99)
    assert time.thread_time() - started < 10
    assert unpack(pack(body)[0]) == body
