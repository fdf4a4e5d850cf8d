"""torch.save with its storages filled in from elsewhere is torch.save, to the byte."""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib

import pytest
import torch

from s4weights.api.record_holes import find_storages, save_with_holes
from s4weights.codec.errors import S4WeightsError
from tests.api.states import bits, odd_state


def filled(state) -> bytes:
    body = io.BytesIO()

    def fill(storage):
        data = bits(torch.empty(0, dtype=torch.uint8).set_(storage))
        body.write(data)
        return zlib.crc32(data)

    save_with_holes(state, body, fill)
    return body.getvalue()


def plain(state) -> bytes:
    body = io.BytesIO()
    torch.save(state, body)
    return body.getvalue()


def odd() -> dict:
    with warnings.catch_warnings(action="ignore"):  # what torch calls deprecated
        state = odd_state()
    del state["quantized"]
    return state


@pytest.mark.parametrize(
    "state",
    [{}, {"one": torch.arange(5.0)}, {"none": torch.empty(0), "two": [torch.ones(3), torch.zeros(70_000).bfloat16()]}],
    ids=["no tensor", "one", "an empty one"],
)
def test_the_archive_is_that_of_torch_save(state):
    assert filled(state) == plain(state)


def test_an_odd_state_is_saved_as_torch_saves_it():
    state = odd()
    body = filled(state)
    assert body == plain(state)
    assert zipfile.ZipFile(io.BytesIO(body)).testzip() is None


def test_storages_come_in_their_order_and_once():
    shared = torch.arange(10.0)
    state = [shared[3:], torch.empty(0), shared, torch.ones(4)]
    found = find_storages(state)
    assert [one.nbytes() for one in found] == [40, 16]
    assert found[0].data_ptr() == shared.untyped_storage().data_ptr()


def test_what_torch_cannot_skip_is_not_saved_with_holes():
    with warnings.catch_warnings(action="ignore"):
        assert find_storages(odd_state()) is None


def test_storages_are_found_by_their_keys_in_whatever_order_torch_writes_them(monkeypatch):
    state = {str(number): torch.full((8,), float(number)) for number in range(12)}
    order = sorted(map(str, range(12)))  # as an older torch has it

    def save(state, file, pickle_module):
        class Keeping(pickle_module.Pickler):
            def persistent_id(self, obj):
                if isinstance(obj, torch.storage.TypedStorage):
                    first = torch.empty(0).set_(obj._untyped_storage)[0]
                    return ("storage", torch.FloatStorage, str(int(first)), "cpu", 8)
                return None

        Keeping(io.BytesIO()).dump(state)
        for key in order:
            file.write(b"PK\x03\x04" + bytes(26) + f"archive/data/{key}".encode())
            file.seek(32, 1)
            file.write(b"PK\x07\x08" + bytes(12))
        file.write(b"PK\x01\x02" + bytes(42))

    monkeypatch.setattr(torch, "save", save)
    found = []
    with pytest.raises(S4WeightsError, match="expected a directory with 12 storages"):
        save_with_holes(state, io.BytesIO(), lambda storage: found.append(bytes(storage[0:4])) or 0)
    assert found == [bits(state[key][0]) for key in order]


def test_an_archive_of_another_shape_is_an_error(monkeypatch):
    monkeypatch.setattr(torch, "save", lambda state, file, **_: file.seek(8, 1))
    with pytest.raises(S4WeightsError, match="expected a storage of 8 bytes at byte 0, found none"):
        save_with_holes({}, io.BytesIO(), lambda storage: 0)
    monkeypatch.setattr(torch, "save", lambda state, file, **_: file.write(b"legacy"))
    with pytest.raises(S4WeightsError, match="expected a directory"):
        save_with_holes({}, io.BytesIO(), lambda storage: 0)
    assert find_storages({}) is None
