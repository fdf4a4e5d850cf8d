"""Types by content: floats of every width, and nothing where planes do not pay."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from s4weights.codec.content import TENSOR_SAMPLE_BYTES as SAMPLE_BYTES
from s4weights.codec.content import guess_element
from s4weights.codec.types import ElementType

FLOATS = {
    torch.bfloat16: ElementType.BF16,
    torch.float16: ElementType.F16,
    torch.float32: ElementType.F32,
    torch.float64: ElementType.F64,
}


def sample(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()[:SAMPLE_BYTES]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("scale", [1e-3, 0.02, 1.0])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_weights(dtype, scale, kind):
    for seed in range(20):
        torch.manual_seed(seed)
        values = torch.randn(900) if kind == "normal" else torch.rand(900) * 2 - 1
        assert guess_element(sample((values * scale).to(dtype))) is FLOATS[dtype]


NOT_FLOATS = {
    "noise": np.random.default_rng(0).bytes(SAMPLE_BYTES),
    "zeros": bytes(SAMPLE_BYTES),
    "text": (b"import torch\nclass Model(torch.nn.Module):\n    pass\n" * 40)[:SAMPLE_BYTES],
    "short": sample(torch.randn(900))[:100],
    "nothing": b"",
    "one byte": b"x",
}


@pytest.mark.parametrize("name", NOT_FLOATS)
def test_what_is_not_floats(name):
    assert guess_element(NOT_FLOATS[name]) is ElementType.BYTES


def test_smooth_elements_are_no_text():
    """A table of sines repeats itself, so that it also compresses as text; of a tensor that does not count."""
    wave = torch.sin(torch.arange(900) / 40).abs()
    wave = torch.cat((wave[:64], wave[:64].flip(0)) * 4)
    assert guess_element(sample(wave), is_tensor=True) is ElementType.F32
    assert guess_element(sample(wave)) is ElementType.BYTES
