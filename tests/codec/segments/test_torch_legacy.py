"""Files that torch.save wrote before it wrote zips, and still does when asked."""

from __future__ import annotations

import pickle
import struct

import pytest
import torch

from s4weights.codec.sniff import sniff
from s4weights.codec.types import Kind
from tests.codec.samples import pack, trained_state, unpack
from tests.codec.segments.cutting import cut, is_found, named, typed_bytes
from tests.codec.segments.real_files import torch_legacy, training_state


def test_every_storage_of_a_training_state_has_its_name_and_shape():
    body = torch_legacy(training_state())
    assert sniff(body) is Kind.TORCH_LEGACY
    found = named(cut(body))
    assert found["model.0.weight"] == ("BF16", 14_400, (120, 60))
    assert found["optimizer.state.0.exp_avg"] == ("BF16", 14_400, (120, 60))
    assert found["optimizer.state.0.step"] == ("F32", 4, ())
    assert len(found) == 4 + 3 * 4


def test_the_whole_of_it_comes_back_and_is_smaller():
    body = torch_legacy(trained_state())
    container, _ = pack(body)
    assert unpack(container) == body
    assert len(container) < 0.8 * len(body)


def test_every_kind_of_storage():
    state = {
        "complex": torch.randn(30, 40, dtype=torch.complex64),
        "f8": torch.randn(900).to(torch.float8_e4m3fn),
        "u16": torch.arange(900).to(torch.uint16),
        "empty": torch.empty(0),
        "bools": torch.arange(900) % 3 == 0,
        "view": torch.randn(9_000)[:10],
        "f64": torch.randn(30, dtype=torch.float64),
    }
    assert named(cut(torch_legacy(state))) == {
        "complex": ("F32", 9_600, (30, 40, 2)),
        "f8": ("F8_E4M3", 900, (900,)),
        "u16": ("U16", 1_800, (900,)),
        "bools": ("BOOL", 900, (900,)),
        "view": ("F32", 36_000, None),
        "f64": ("F64", 240, (30,)),
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(protocol):
    body = torch_legacy({"a": torch.randn(30, 40)}, pickle_protocol=protocol)
    assert named(cut(body)) == {"a": ("F32", 4_800, (30, 40))}


@pytest.mark.case(4)
def test_several_saves_in_one_file():
    first, second = torch_legacy({"a": torch.randn(9)}), torch_legacy({"b": torch.randn(5).half(), "c": 1})
    body = first + second + torch_legacy({"none": 1}) + first + b"and more"
    assert [one.name for one in cut(body) if is_found(one)] == ["a", "b", "a"]
    assert typed_bytes(cut(body)) == 36 + 10 + 36


@pytest.mark.case(4)
def test_storages_are_matched_by_the_order_of_the_keys():
    """Keys are addresses: their order in the file is that of the last pickle, not of the object."""
    state = {f"t{number}": torch.full((number + 1,), float(number)) for number in range(30)}
    body = torch_legacy(state)
    for segment in filter(is_found, cut(body)):
        values = torch.frombuffer(bytearray(body[segment.start : segment.end]), dtype=torch.float32)
        assert segment.name is not None
        assert torch.equal(values, state[segment.name])


def test_an_ordered_dict_as_python_2_pickled_it():
    """A call of OrderedDict with a list of pairs, as in the weights of lpips."""

    class Pairs(dict):
        def __reduce__(self):
            return (__import__("collections").OrderedDict, ([[key, value] for key, value in self.items()],))

    found = named(cut(torch_legacy(Pairs({"lin0.weight": torch.randn(1, 64, 1, 1), "lin1.bias": torch.randn(3)}))))
    assert found == {"lin0.weight": ("F32", 256, (1, 64, 1, 1)), "lin1.bias": ("F32", 12, (3,))}


def test_a_count_that_differs_from_the_pickle_is_the_right_one():
    body = bytearray(torch_legacy({"a": torch.randn(40)}))
    body[-168:-160] = struct.pack("<q", 30)
    assert named(cut(bytes(body))) == {"a": ("F32", 120, None)}


@pytest.mark.parametrize("count", [-1, 1 << 62, -(1 << 63)])
def test_a_count_that_cannot_be_ends_the_typed_part(count):
    body = bytearray(torch_legacy({"a": torch.randn(40)}))
    body[-168:-160] = struct.pack("<q", count)
    assert typed_bytes(cut(bytes(body))) == 0


def test_other_pickles_of_the_same_beginning_are_bytes():
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    for rest in (b"", b"nonsense" * 50, pickle.dumps(1001, 2) * 3 + pickle.dumps("no list", 2), magic * 9):
        body = magic + rest
        assert sniff(body, complete=True) is Kind.TORCH_LEGACY
        assert typed_bytes(cut(body)) == 0
        assert unpack(pack(body)[0]) == body
