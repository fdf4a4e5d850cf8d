"""Loading to a device that is none: only stored bytes go up, every frame is verified, and all else is loaded as ever."""

from __future__ import annotations

import io
import threading
import zipfile
from collections import OrderedDict

import pytest
import torch

import s4weights
from s4weights.api import device_loading
from s4weights.api.storage_map import map_storages
from s4weights.codec.errors import FormatError
from s4weights.codec.gpu import usable
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.gpu.slots import RingSize
from s4weights.files import pack_file
from tests.api.states import bits, odd_state, same
from tests.api.test_device_saving import big_state
from tests.codec.gpu.fake import FakeDevice, Faults, raising

PLACE = "cpu"  # where the fake device is


@pytest.fixture
def device():
    return FakeDevice()


@pytest.fixture
def engine(device, monkeypatch):
    engine = GpuEngine(device, RingSize(3, 4 << 20))
    monkeypatch.setattr(usable, "shared_engine", lambda *_: engine)
    yield engine
    engine.close()


@pytest.fixture
def loaded(monkeypatch):
    """Whether each load went straight to the device."""
    found = []
    load = device_loading.load_to_device

    def counted(*arguments):
        outcome = load(*arguments)
        found.append(outcome[0])
        return outcome

    monkeypatch.setattr("s4weights.api.loading.load_to_device", counted)
    return found


def test_a_state_is_decoded_where_it_is_to_be(device, engine, loaded, tmp_path):
    state = big_state()
    state["shared"] = [state["moments"], state["moments"][4:9]]
    state["parameter"] = torch.nn.Parameter(torch.randn(400, 300))
    state["ordered"] = OrderedDict(noise=torch.randint(0, 255, (500_000,), dtype=torch.uint8))
    s4weights.save(state, tmp_path / "state.pt", engine="native")
    back = s4weights.load(tmp_path / "state.pt", map_location=PLACE, engine="gpu")
    assert same(back, state)
    assert loaded == [True]
    assert back["shared"][0].data_ptr() == back["moments"].data_ptr() == back["shared"][1].data_ptr() - 4 * 300 * 4
    assert engine.counts.faults == 0
    assert engine.counts.logical_bytes > 4_000_000
    # Stored bytes, and once more those in which the kind of body was seen.
    assert device.up_bytes < (tmp_path / "state.pt").stat().st_size + (1 << 20)


@pytest.mark.parametrize(
    "faults",
    [
        Faults(decode={n: raising(RuntimeError("launch failure")) for n in range(99)}),
        Faults(wrong_decode=set(range(99))),
        Faults(decode={n: raising(FormatError("no")) for n in range(99)}),
        Faults(torn_up={0}, torn_down={1}),
    ],
    ids=["launch", "wrong", "refused", "torn"],
)
def test_a_device_that_fails_gives_the_same_state(faults, monkeypatch, loaded, tmp_path):
    engine = GpuEngine(FakeDevice(faults), RingSize(3, 4 << 20))
    monkeypatch.setattr(usable, "shared_engine", lambda *_: engine)
    state = big_state()
    s4weights.save(state, tmp_path / "state.pt", engine="native")
    assert same(s4weights.load(tmp_path / "state.pt", map_location=PLACE, engine="gpu"), state)
    assert loaded == [True]
    assert engine.counts.faults
    engine.close()


def test_every_thread_waits_for_its_own_copies(device, engine, monkeypatch, tmp_path):
    state, waiting = big_state(), set()
    s4weights.save(state, tmp_path / "state.pt", engine="native")
    arrived = device.arrived
    monkeypatch.setattr(device, "arrived", lambda: waiting.add(threading.current_thread().name) or arrived())
    engine.health.switch_off("so that the processor decodes")
    assert same(s4weights.load(tmp_path / "state.pt", map_location=PLACE, engine="gpu"), state)
    assert any(name.startswith("load") for name in waiting)


def test_a_delta_is_loaded_with_its_base(engine, loaded, tmp_path):
    first = {"weight": torch.randn(400, 1000)}
    second = {"weight": first["weight"] + 1e-6 * torch.randn(400, 1000)}
    torch.save(first, tmp_path / "first.pt")
    torch.save(second, tmp_path / "second.pt")
    pack_file(tmp_path / "second.pt", tmp_path / "second.s4w", bases=[tmp_path / "first.pt"])
    assert same(s4weights.load(tmp_path / "second.s4w", map_location=PLACE, engine="gpu"), second)
    assert loaded == [True]


@pytest.mark.filterwarnings("ignore")  # of torch, on what it calls deprecated
def test_what_is_read_while_it_is_unpickled_is_loaded_as_ever(engine, loaded, tmp_path):
    sparse = {"sparse": torch.eye(50).to_sparse(), "weight": torch.randn(300, 300)}
    s4weights.save(sparse, tmp_path / "sparse.pt", engine="native")
    assert same(s4weights.load(tmp_path / "sparse.pt", map_location=PLACE, engine="gpu"), sparse)
    odd = odd_state()
    s4weights.save(odd, tmp_path / "odd.pt", engine="native")
    assert same(s4weights.load(tmp_path / "odd.pt", map_location=PLACE, engine="gpu", weights_only=False), odd)
    assert loaded == [False]  # with more than weights it is not even tried
    torch.save(sparse, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    pack_file(tmp_path / "legacy.pt", tmp_path / "legacy.s4w")
    assert same(s4weights.load(tmp_path / "legacy.s4w", map_location=PLACE, engine="gpu"), sparse)
    assert loaded == [False]


def test_other_places_are_loaded_as_ever(device, engine, loaded, tmp_path):
    state = big_state()
    device.place = torch.device("cuda", 1)
    s4weights.save(state, tmp_path / "state.pt", engine="native")
    for place in (None, "cpu", {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert same(s4weights.load(tmp_path / "state.pt", map_location=place, engine="gpu"), state)
    assert loaded == []


def test_damage_is_an_error_wherever_it_lies(engine, tmp_path):
    s4weights.save(big_state(), tmp_path / "state.pt", engine="native")
    sound = (tmp_path / "state.pt").read_bytes()
    for at in range(2000, len(sound) - 3000, len(sound) // 7):
        stored = bytearray(sound)
        stored[at] ^= 1
        (tmp_path / "damaged.pt").write_bytes(stored)
        with pytest.raises(FormatError):
            s4weights.load(tmp_path / "damaged.pt", map_location=PLACE, engine="gpu")


def test_places_are_those_of_the_bytes():
    state = {"b": torch.arange(7.0), "e": torch.empty(0), "a": torch.ones(90_000).half(), "v": torch.arange(3)}
    body = io.BytesIO()
    torch.save(state, body)
    found = map_storages(body)
    data = body.getvalue()
    expected = [bits(state[name]) for name in ("b", "a", "v")]
    assert [data[one.start : one.start + one.length] for one in found] == expected


def test_archives_that_are_none_have_no_places():
    assert map_storages(io.BytesIO(b"PK" * 500)) is None
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("x/readme", "nothing of torch")
    assert map_storages(other) is None
    packed = io.BytesIO()
    body = io.BytesIO()
    torch.save({"a": torch.ones(5)}, body)
    with zipfile.ZipFile(body) as given, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for info in given.infolist():
            archive.writestr(info.filename, given.read(info))
    assert map_storages(packed) is None


class Reduced:
    def __reduce__(self):
        return print, ("called",)


def test_nothing_that_a_pickle_names_is_called(capsys):
    body = io.BytesIO()
    torch.save({"a": Reduced(), "b": torch.ones(3)}, body)
    assert map_storages(body) is None
    assert capsys.readouterr().out == ""
