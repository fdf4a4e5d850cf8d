"""Which tensor stands for a storage, and its dimensions as they lie in memory."""

from __future__ import annotations

import pytest
import torch

from tests.codec.segments.cutting import cut, named
from tests.codec.segments.real_files import torch_legacy, torch_zip, training_state


@pytest.mark.parametrize("save", [torch_zip, torch_legacy])
def test_optimizer_state_has_names_and_shapes(save):
    found = named(cut(save(training_state())))
    for moment in ("exp_avg", "exp_avg_sq"):
        assert found[f"optimizer.state.0.{moment}"] == ("BF16", 14_400, (120, 60))
        assert found[f"optimizer.state.3.{moment}"] == ("BF16", 10, (5,))
    assert found["model.2.weight" if "model.2.weight" in found else "model.1.weight"] == ("BF16", 1_200, (5, 120))


@pytest.mark.parametrize("save", [torch_zip, torch_legacy])
def test_the_tensor_that_covers_a_storage_names_it(save):
    whole = torch.randn(30, 40)
    state = {"row": whole[3], "column": whole[:, 1], "whole": whole, "flat": whole.view(-1)}
    assert named(cut(save(state))) == {"whole": ("F32", 4_800, (30, 40))}


def test_a_storage_that_no_tensor_covers_has_a_name_and_no_shape():
    state = {"part": torch.randn(30, 40)[:10], "every": torch.randn(900)[::2]}
    assert named(cut(torch_zip(state))) == {"part": ("F32", 4_800, None), "every": ("F32", 3_600, None)}


ORDERS = {
    "transposed": (torch.randn(30, 40).t(), (30, 40)),
    "permuted": (torch.randn(3, 4, 5).permute(2, 0, 1), (3, 4, 5)),
    "channels last": (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), (2, 4, 5, 3)),
    "expanded": (torch.randn(1, 40).expand(3, 40), None),
    "reversed in part": (torch.randn(6, 4)[::2], None),
    "ones": (torch.randn(1, 30, 1, 7), (1, 30, 1, 7)),
    "transposed ones": (torch.randn(30, 1, 7).transpose(0, 2), (30, 7)),
    "scalar": (torch.tensor(3.0), ()),
    "expanded to the same count": (torch.randn(6)[:3].expand(2, 3), None),
}


@pytest.mark.parametrize("name", ORDERS)
def test_dimensions_are_in_the_order_of_their_strides(name):
    tensor, shape = ORDERS[name]
    (found,) = named(cut(torch_zip({"t": tensor}))).values()
    assert found[2] == shape


def test_complex_numbers_are_pairs_of_floats():
    found = named(cut(torch_zip({"t": torch.randn(30, 40, dtype=torch.complex64).t()})))
    assert found == {"t": ("F32", 9_600, (30, 40, 2))}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_types_that_only_the_tensor_knows():
    state = {
        "complex32": torch.zeros(30, 40, dtype=torch.complex32),
        "float4": torch.arange(60, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).view(3, 20),
        "e8m0": torch.ones(70).to(torch.float8_e8m0fnu),
        "u32": torch.arange(9).to(torch.uint32).view(3, 3),
    }
    assert named(cut(torch_zip(state))) == {
        "complex32": ("F16", 4_800, (30, 40, 2)),
        "float4": ("U8", 60, (3, 20)),
        "e8m0": ("F8_E8M0", 70, (70,)),
        "u32": ("U32", 36, (3, 3)),
    }


class Subclass(torch.Tensor):
    pass


def test_subclasses_parameters_and_modules():
    state = {
        "subclass": torch.randn(30, 40).as_subclass(Subclass),
        "parameter": torch.nn.Parameter(torch.randn(5, 6)),
        "module": torch.nn.Linear(7, 8),
    }
    found = named(cut(torch_zip(state)))
    assert found["subclass"] == ("F32", 4_800, (30, 40))
    assert found["parameter"] == ("F32", 120, (5, 6))
    assert ("F32", 224, (8, 7)) in found.values()


def test_the_same_name_twice_is_two_segments():
    body = torch_zip([{"a": torch.randn(9)}, {"a": torch.randn(9)}])
    assert set(named(cut(body))) == {"0.a", "1.a"}
