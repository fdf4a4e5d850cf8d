"""Types by content: floats of every width, in any step, and nothing where planes do not pay."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from s4weights.codec.content import NONE, SAMPLE_BYTES, TENSOR_SAMPLE_BYTES, Elements, find_elements, guess_element
from s4weights.codec.types import ElementType

FLOATS = {
    torch.bfloat16: ElementType.BF16,
    torch.float16: ElementType.F16,
    torch.float32: ElementType.F32,
    torch.float64: ElementType.F64,
}


def octets(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def sample(tensor: torch.Tensor) -> bytes:
    return octets(tensor)[:TENSOR_SAMPLE_BYTES]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("scale", [1e-3, 0.02, 1.0])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_the_first_bytes_of_a_tensor_tell_its_type(dtype, scale, kind):
    for seed in range(20):
        torch.manual_seed(seed)
        values = torch.randn(900) if kind == "normal" else torch.rand(900) * 2 - 1
        assert guess_element(sample((values * scale).to(dtype))) is FLOATS[dtype]


def noise(size: int) -> bytes:
    return np.random.default_rng(0).bytes(size)


TEXT = Path(__file__).read_bytes()
NOT_FLOATS = {
    "noise": noise(SAMPLE_BYTES),
    "text": (TEXT * 9)[:SAMPLE_BYTES],
    "text of 16 bits": TEXT.decode().encode("utf-16-le")[:SAMPLE_BYTES],
    "compressed": zlib.compress(noise(3_000) + TEXT * 2, 9)[:SAMPLE_BYTES],
    "records": b"".join(
        np.array([100 * n, n % 7, 4096 + 24 * n], "<u4").tobytes() for n in range(SAMPLE_BYTES // 12 + 1)
    )[:SAMPLE_BYTES],
    "a colour image": np.arange(SAMPLE_BYTES // 4).repeat(3).astype("u1").tobytes()[:SAMPLE_BYTES],
    "every byte in turn": bytes(range(256)) * (SAMPLE_BYTES // 256),
    "too short": octets(torch.randn(900))[:500],
    "nothing": b"",
    "one byte": b"x",
}


@pytest.mark.parametrize("name", NOT_FLOATS)
def test_what_is_not_numbers(name):
    assert find_elements(NOT_FLOATS[name], 0) == NONE


@pytest.mark.parametrize("name", ["noise", "text", "compressed", "every byte in turn", "nothing", "one byte"])
def test_what_is_no_tensor(name):
    assert guess_element(NOT_FLOATS[name][:TENSOR_SAMPLE_BYTES]) is ElementType.BYTES


def test_smooth_elements_are_no_text():
    """A table of sines repeats itself, so that it also compresses as text; of a tensor that does not count."""
    wave = torch.sin(torch.arange(900) / 40).abs()
    wave = torch.cat((wave[:64], wave[:64].flip(0)) * 4)
    assert guess_element(sample(wave), is_tensor=True) is ElementType.F32
    assert guess_element(sample(wave)) is ElementType.BYTES


def values(seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return 0.02 * torch.randn(SAMPLE_BYTES)


NUMBERS = {
    "bf16": (lambda seed: values(seed).bfloat16(), ElementType.BF16),
    "fp16": (lambda seed: values(seed).half(), ElementType.F16),
    "fp32": (values, ElementType.F32),
    "fp64": (lambda seed: torch.randn(SAMPLE_BYTES, dtype=torch.float64), ElementType.F64),
    "second moments": (lambda seed: 1e-6 * values(seed) ** 2, ElementType.F32),
    "fp32 that was bf16": (lambda seed: values(seed).bfloat16().float(), ElementType.F32),
    "fp32 that was fp16": (lambda seed: values(seed).half().float(), ElementType.F32),
    "fp64 that was fp32": (lambda seed: values(seed).double(), ElementType.F64),
    "sound": (lambda seed: (9_000 * values(seed)).short(), ElementType.I16),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_type_and_step_of_a_sample_from_anywhere(name):
    make, element = NUMBERS[name]
    for seed in range(8):
        body = octets(make(seed))
        for skipped in range(element.width):
            offset = 8_000 + 3 * seed
            expected = Elements(element, (offset - skipped) % element.width)
            assert find_elements(body[skipped : skipped + SAMPLE_BYTES], offset) == expected


@pytest.mark.parametrize("byte", [b"\0", b"\xff", b"a"])
def test_the_same_byte_over_and_over_says_nothing_new(byte):
    before = Elements(ElementType.F32, 3)
    assert find_elements(byte * SAMPLE_BYTES, 0, before) == before
    assert find_elements(byte * SAMPLE_BYTES, 0) == NONE


def test_names_do_not_change_where_planes_do_not():
    """A dump of fp16 whose entropy lies about the border stays what it was taken for."""
    half = octets(values(0).half())[:SAMPLE_BYTES]
    assert find_elements(half, 0) == Elements(ElementType.F16)
    assert find_elements(half, 0, Elements(ElementType.BF16)) == Elements(ElementType.BF16)
    assert find_elements(half, 0, Elements(ElementType.I16)) == Elements(ElementType.F16)
    assert find_elements(half, 0, Elements(ElementType.BF16, 1)) == Elements(ElementType.F16)


@pytest.mark.parametrize("step", range(4))
def test_the_first_element_behind_an_offset(step):
    elements = Elements(ElementType.F32, step)
    for offset in range(9):
        first = elements.first(offset)
        assert offset <= first < offset + 4
        assert first % 4 == step


def test_no_sample_is_an_error():
    """Whatever the bytes: the answer is one of a width's own steps."""
    random = np.random.default_rng(1)
    shapes = [np.repeat, lambda one, times: np.tile(one, times), lambda one, times: np.sort(np.tile(one, times))]
    for seed in range(200):
        few = random.integers(0, 256, int(random.integers(1, 700)), dtype="u1")
        body = shapes[seed % 3](few, SAMPLE_BYTES // len(few) + 1).tobytes()[
            : int(random.integers(1, SAMPLE_BYTES + 1))
        ]
        found = find_elements(body, seed)
        assert 0 <= found.step < found.element.width
