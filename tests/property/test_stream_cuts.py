"""However a body is cut on its way, its container is the same to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codec.samples import SAMPLES, pack, safetensors_file, torch_file, unpack

WHOLE = {name: (body := make(), pack(body)[0]) for name, make in SAMPLES.items()}


@pytest.mark.parametrize("name", WHOLE)
@given(sizes=st.lists(st.integers(1, 5_000), min_size=1, max_size=300), rest=st.integers(2_000, 200_000))
@settings(max_examples=12, deadline=None)
def test_random_pieces(name, sizes, rest):
    body, container = WHOLE[name]
    assert pack(body, sizes=[*sizes, rest])[0] == container


@pytest.mark.parametrize("name", [name for name, (body, _) in WHOLE.items() if len(body) < 100_000])
def test_small_bodies_byte_by_byte_to_the_end(name):
    body, container = WHOLE[name]
    assert pack(body, sizes=[1])[0] == container


@pytest.mark.parametrize("name", ["torch", "safetensors"])
@pytest.mark.parametrize("size", [1, 7])
def test_byte_by_byte_through_the_structured_part(name, size):
    body, container = WHOLE[name]
    assert pack(body, sizes=[size] * (20_000 // size) + [50_000])[0] == container


@given(st.binary(max_size=400), st.sampled_from(["torch", "safetensors"]), st.integers(0, 6_000))
@settings(max_examples=60, deadline=None)
def test_anything_written_over_a_header_comes_back(noise, name, place):
    body = bytearray(WHOLE[name][0][:200_000])
    body[place : place + len(noise)] = noise
    assert unpack(pack(bytes(body), sizes=[1_000])[0]) == bytes(body)


def test_samples_are_made_the_same_each_time():
    assert safetensors_file() == WHOLE["safetensors"][0]
    assert torch_file({"a": 1}) == torch_file({"a": 1})
