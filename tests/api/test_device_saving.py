"""Saving what lies on a device: torch.save's bytes, encoded from where they lie, on a device that is none."""

from __future__ import annotations

import io

import pytest
import torch

import s4weights
from s4weights.api import state_writer
from s4weights.codec.errors import S4WeightsError
from s4weights.codec.gpu import usable
from s4weights.codec.gpu.downloads import Downloads
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.gpu.slots import RingSize
from s4weights.files import pack_file, unpack_file
from tests.api.states import same
from tests.codec.gpu.fake import NATIVE, FakeDevice, Faults, raising


@pytest.fixture
def device():
    return FakeDevice()


@pytest.fixture
def engine(device, monkeypatch):
    engine = GpuEngine(device, RingSize(3, 4 << 20))
    monkeypatch.setattr(usable, "shared_engine", lambda *_: engine)
    yield engine
    engine.close()


def big_state() -> dict:
    torch.manual_seed(5)
    base = torch.randn(700, 900)
    return {
        "model": {"weight": base, "view": base[10:20], "half": torch.randn(600_000).bfloat16()},
        "moments": torch.randn(900, 300).square(),
        "small": [torch.randn(20) for _ in range(50)],
        "step": 3,
        "empty": torch.empty(0),
    }


def on_device(device, state) -> None:
    device.adopt(state["model"]["weight"], state["model"]["half"], state["moments"], *state["small"])


def test_a_state_on_a_device_is_stored_as_native_would_and_goes_up_not_at_all(device, engine, tmp_path):
    state = big_state()
    on_device(device, state)
    s4weights.save(state, tmp_path / "state.pt", engine="gpu")
    counts = engine.counts
    assert (counts.faults, counts.off) == (0, "")
    assert counts.logical_bytes > 4_000_000
    # Frames of small tensors and pickles are the host's; some kilobytes of them may be long enough for the device.
    assert device.up_bytes < 100_000
    unpack_file(tmp_path / "state.pt", tmp_path / "plain.pt")
    expected = io.BytesIO()
    torch.save(state, expected)
    assert (tmp_path / "plain.pt").read_bytes() == expected.getvalue()
    # The frames are those of the native engine without Huffman codes; native reads them.
    pack_file(tmp_path / "plain.pt", tmp_path / "packed", engine=NATIVE)
    stored, packed = ((tmp_path / name).read_bytes() for name in ("state.pt", "packed"))
    frames_end = packed.rindex(b"S4IX")
    assert stored[:frames_end] == packed[:frames_end]
    assert same(s4weights.load(tmp_path / "state.pt", engine="native"), state)


@pytest.mark.parametrize(
    "faults",
    [
        Faults(encode={n: raising(torch.OutOfMemoryError("no memory")) for n in range(99)}),
        Faults(wrong_payload={0}, torn_down={0, 4, 5}),
        Faults(decode={0: raising(RuntimeError("launch failure"))}),
    ],
    ids=["memory", "torn", "launch"],
)
def test_a_device_that_fails_costs_no_byte(faults, monkeypatch, tmp_path):
    device = FakeDevice(faults)
    engine = GpuEngine(device, RingSize(3, 4 << 20))
    monkeypatch.setattr(usable, "shared_engine", lambda *_: engine)
    state = big_state()
    on_device(device, state)
    s4weights.save(state, tmp_path / "state.pt", engine="gpu")
    assert engine.counts.faults
    assert same(s4weights.load(tmp_path / "state.pt", engine="native"), state)
    engine.close()


def test_what_is_on_no_device_and_what_torch_cannot_skip_is_saved_as_ever(device, engine, tmp_path):
    state = big_state()
    s4weights.save(state, tmp_path / "state.pt", engine="gpu")
    assert engine.counts.frames
    assert same(s4weights.load(tmp_path / "state.pt"), state)
    on_device(device, state)
    engine.close()
    s4weights.save(state, tmp_path / "again.pt", engine="gpu")
    assert same(s4weights.load(tmp_path / "again.pt"), state)


def test_checkpoints_of_a_run_come_from_the_device_chunk_by_chunk(device, engine, tmp_path, monkeypatch):
    monkeypatch.setenv("S4W_ENGINE", "gpu")
    state = big_state()
    on_device(device, state)
    monkeypatch.setattr(state_writer, "Downloads", lambda device: Downloads(device, 1 << 18))
    s4weights.save_checkpoint(state, tmp_path / "run", step=1)
    assert engine.counts.frames
    assert engine.counts.faults == 0
    monkeypatch.setenv("S4W_ENGINE", "native")
    assert same(s4weights.load_checkpoint(tmp_path / "run"), state)


def test_chunks_are_the_tensors_bytes_in_order(device):
    whole = torch.randint(0, 255, (1_000_003,), dtype=torch.uint8)
    found = [(piece.storage_offset(), bytes(data)) for piece, data in Downloads(device, 1 << 17).chunks(whole)]
    assert [at for at, _ in found] == list(range(0, 1_000_003, 1 << 17))
    assert b"".join(data for _, data in found) == whole.numpy().tobytes()
    assert list(Downloads(device).chunks(torch.empty(0, dtype=torch.uint8))) == []


def test_a_chunk_that_does_not_arrive_whole_is_fetched_again_and_at_last_an_error():
    whole = torch.randint(0, 255, (300_000,), dtype=torch.uint8)
    again = Downloads(FakeDevice(Faults(torn_down={0, 2})), 1 << 17)
    assert b"".join(bytes(data) for _, data in again.chunks(whole)) == whole.numpy().tobytes()
    never = Downloads(FakeDevice(Faults(torn_down=set(range(99)))), 1 << 17)
    with pytest.raises(S4WeightsError, match="fake:0: expected 131072 bytes with the sum"):
        list(never.chunks(whole))


def test_the_engine_is_that_of_the_environment(engine, monkeypatch, tmp_path):
    monkeypatch.setenv("S4W_ENGINE", "native")
    s4weights.save(big_state(), tmp_path / "state.pt")
    assert engine.counts.frames == 0
    monkeypatch.setenv("S4W_ENGINE", "best")
    with pytest.raises(ValueError, match="S4W_ENGINE: expected auto, native, gpu, reference, found 'best'"):
        s4weights.save({}, tmp_path / "state.pt")
