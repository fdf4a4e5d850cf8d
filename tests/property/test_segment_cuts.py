"""Every format that is known, fed in any pieces, gives the same segments."""

from __future__ import annotations

import io
import zipfile
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codec.segments import real_files
from tests.codec.segments.cutting import cut, is_found


def mixed_zip() -> bytes:
    """Compressed, foreign and unknown entries, written where nobody can go back to fill in lengths."""
    tensors = np.random.default_rng(0).normal(size=4_000)
    file = real_files.OneWay()
    with zipfile.ZipFile(file, "w") as archive:
        for number, (name, method) in enumerate(
            (("a/data/0", 0), ("a/code/x.py", 8), ("notes", 0), ("a/data/1", 0), ("a/empty", 0), ("a/data/2", 0))
        ):
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            archive.writestr(info, tensors.astype(("f4", "f8")[number % 2]).tobytes() if "data" in name else b"x" * 900)
    return bytes(file.written)


def lengths_in_front() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data/0", np.random.default_rng(0).normal(size=900).tobytes())
        archive.writestr("a/data/1", np.random.default_rng(0).normal(size=9).tobytes())
    return buffer.getvalue()


MAKERS = {
    "torch zip": lambda: real_files.torch_zip(real_files.training_state(20)),
    "torch legacy": lambda: real_files.torch_legacy(real_files.training_state(20)) * 2,
    "TorchScript": lambda: real_files.torch_script(40),
    "distcp": real_files.distcp,
    "distcp with safetensors": lambda: real_files.distcp(safetensors=True),
    "safetensors": real_files.safetensors_file,
    "npy": lambda: real_files.npy(np.ones((30, 40)), np.arange(9), np.ones(5, "f4")),
    "npz": real_files.npz,
    "npz from a pipe": lambda: real_files.npz(one_way=True),
    "gguf": real_files.gguf_file,
    "mixed zip": mixed_zip,
    "lengths in front": lengths_in_front,
    "one of each": lambda: b"".join(
        (
            real_files.torch_zip({"a": real_files.torch.ones(9)}),
            real_files.npy(np.ones(9)),
            real_files.torch_legacy({"a": real_files.torch.ones(9)}),
            real_files.safetensors_file(),
        )
    ),
}


@cache
def made(name: str) -> tuple[bytes, list]:
    body = MAKERS[name]()
    return body, cut(body)


@pytest.mark.parametrize("name", MAKERS)
def test_something_is_found(name):
    assert sum(map(is_found, made(name)[1])) >= 2


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("size", [1, 2, 3, 61])
def test_small_pieces(name, size):
    body, whole = made(name)
    assert cut(body, [size] * len(body)) == whole


@pytest.mark.parametrize("name", MAKERS)
@given(sizes=st.lists(st.integers(1, 3_000), min_size=1, max_size=60))
@settings(max_examples=15, deadline=None)
def test_random_pieces(name, sizes):
    body, whole = made(name)
    assert cut(body, sizes * 10) == whole


@pytest.mark.parametrize("name", MAKERS)
@given(noise=st.binary(min_size=1, max_size=60), place=st.floats(0, 1), size=st.integers(1, 900))
@settings(max_examples=25, deadline=None)
def test_a_damaged_body_too(name, noise, place, size):
    """What is found in it may be anything, but never depends on the pieces, and never is an exception."""
    body = bytearray(made(name)[0])
    at = int(place * len(body))
    body[at : at + len(noise)] = noise
    damaged = bytes(body)
    assert cut(damaged, [size] * len(damaged)) == cut(damaged)


@pytest.mark.parametrize("name", MAKERS)
def test_a_body_that_ends_early(name):
    body, whole = made(name)
    for end in range(0, len(body), max(1, len(body) // 40)):
        found = [one for one in cut(body[:end], [700] * end) if is_found(one)]
        assert found == [one for one in whole if is_found(one)][: len(found)]
