"""Which engine is chosen where, and what is named where a device is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

import s4weights
from s4weights.codec.engines import NativeEngine, choose_engine
from s4weights.codec.errors import ConfigError, EngineUnavailable
from s4weights.codec.gpu import usable
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.engine import name_in_callers_process, open_callers_engine, open_engine
from s4weights.files import pack_file
from tests.codec.gpu.fake import FakeDevice, Faults, raising


@pytest.fixture
def devices(monkeypatch):
    """Devices that open_device gives, one after another."""
    given = []
    monkeypatch.setattr(usable, "open_device", lambda: given.pop(0))
    monkeypatch.setattr(usable, "may_be_usable", lambda: True)
    shared = usable._Shared()
    monkeypatch.setattr(usable, "_shared", shared)
    yield given
    if shared.engine is not None:
        shared.engine.close()


def test_without_a_gpu_auto_is_native_and_gpu_says_what_is_missing():
    assert type(choose_engine("auto")) is type(choose_engine("native")) is NativeEngine
    with pytest.raises(EngineUnavailable, match=r"^gpu: (expected|\w+ is missing)"):
        choose_engine("gpu")
    with pytest.raises(ConfigError, match="auto, native, gpu, reference, found 'cuda'"):
        choose_engine("cuda")


def fake_cuda(monkeypatch, *, version="12.8", available=True, capability=(9, 0), modules=("torch", "triton")):
    cuda = SimpleNamespace(
        is_available=lambda: available,
        current_device=lambda: 0,
        get_device_capability=lambda device: capability,
        get_device_name=lambda device: "Tesla V100",
    )
    fake = SimpleNamespace(version=SimpleNamespace(cuda=version), __version__="2.9", cuda=cuda, device=torch.device)

    def import_module(name, package=None):
        if name.startswith("."):
            return SimpleNamespace(TritonFrameCodec=lambda device: f"codec of {device}")
        if name not in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return fake if name == "torch" else None

    monkeypatch.setattr(usable.importlib, "import_module", import_module)


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ({"modules": ()}, "gpu: torch is missing .*: pip install 's4weights\\[torch\\]'"),
        ({"version": None}, "gpu: expected a torch that is built for CUDA, found torch 2.9"),
        ({"modules": ("torch",)}, "gpu: triton is missing"),
        ({"available": False}, "gpu: expected an NVIDIA GPU and its driver, found none that torch can use"),
        ({"capability": (7, 0)}, r"gpu: expected compute capability 8.0 or more, found 7.0 \(Tesla V100\)"),
    ],
)
def test_what_is_missing_is_named(there, message, monkeypatch):
    fake_cuda(monkeypatch, **there)
    with pytest.raises(EngineUnavailable, match=message):
        usable.open_device()


@pytest.mark.parametrize("kind", [RuntimeError, AssertionError, OSError])
@pytest.mark.parametrize("call", ["is_available", "current_device", "get_device_capability"])
def test_cuda_that_does_not_start_leaves_auto_with_the_processor(kind, call, monkeypatch):
    fake_cuda(monkeypatch)
    monkeypatch.setattr(usable, "may_be_usable", lambda: True)
    monkeypatch.setattr(usable, "_shared", usable._Shared())
    monkeypatch.setattr(usable.importlib.import_module("torch").cuda, call, raising_any(kind("out of memory")))
    with pytest.raises(EngineUnavailable, match=f"gpu: CUDA does not start: {kind.__name__}: out of memory"):
        choose_engine("gpu")
    assert choose_engine("auto").name == "native"


def raising_any(error):
    def fault(*_):
        raise error

    return fault


def test_auto_does_not_start_cuda_in_a_callers_process(devices, monkeypatch):
    monkeypatch.delenv("S4W_ENGINE", raising=False)
    assert open_callers_engine().name == open_callers_engine("auto", "cpu").name == "native"
    for place in ("cuda", "cuda:1", torch.device("cuda", 0), {"cpu": "cuda:0"}):
        assert name_in_callers_process(None, place) == "auto"
    assert name_in_callers_process("auto", {"cuda:0": "cpu"}) == "native"
    assert name_in_callers_process("gpu") == "gpu"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    devices.append(FakeDevice())
    assert open_callers_engine().name == "gpu"


@pytest.mark.parametrize("use", ["save", "load", "save_checkpoint", "pack_file"])
def test_no_call_of_the_api_opens_a_device_unasked(use, devices, monkeypatch, tmp_path):
    monkeypatch.delenv("S4W_ENGINE", raising=False)
    state = {"weight": torch.ones(1000)}
    torch.save(state, tmp_path / "plain.pt")
    monkeypatch.setattr(usable, "open_device", lambda: pytest.fail("it was opened"))
    if use == "save_checkpoint":
        s4weights.save_checkpoint(state, tmp_path / "run", step=1)
    elif use == "pack_file":
        pack_file(tmp_path / "plain.pt", tmp_path / "packed.s4w")
    elif use == "save":
        s4weights.save(state, tmp_path / "saved.pt")
    else:
        s4weights.load(tmp_path / "plain.pt")


def test_a_device_that_has_everything_is_opened(monkeypatch):
    fake_cuda(monkeypatch)
    device = usable.open_device()
    assert (device.name, device.codec) == ("cuda:0", "codec of cuda:0")


def test_a_process_has_one_engine(devices):
    devices.append(FakeDevice())
    engine = choose_engine("gpu")
    assert isinstance(engine, GpuEngine)
    assert choose_engine("auto") is engine is choose_engine("gpu", gpu_memory_bytes=1)
    assert open_engine("auto", one_by_one=True).name == "native"
    assert open_engine("gpu", one_by_one=True) is engine
    engine.close()
    devices.append(FakeDevice())
    assert choose_engine("auto") is not engine


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (Faults(encode={0: raising(RuntimeError("no kernel image"))}), "found RuntimeError: no kernel image"),
        (Faults(wrong_payload={0}), "found DeviceFault: verification"),
        (Faults(wrong_payload={0, 1}, blind=True, decode={0: lambda: None}), "expected"),
        (Faults(wrong_decode={1}), "other bytes"),
        (Faults(most_bytes=1), "bytes of free memory, found 1"),
    ],
)
def test_a_device_that_does_not_prove_itself_is_not_used(faults, message, devices):
    devices.extend([FakeDevice(faults), FakeDevice(faults)])
    with pytest.raises(EngineUnavailable, match=message):
        choose_engine("gpu")
    assert choose_engine("auto").name == "native"


def test_a_child_makes_an_engine_of_its_own(devices):
    devices.append(FakeDevice())
    engine = choose_engine("gpu")
    usable._after_fork()
    assert usable._shared.engine is None
    engine.close()


def test_torch_is_not_imported_to_find_that_there_is_no_driver():
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is one")
    code = "import sys; from s4weights.codec.engines import choose_engine; choose_engine(); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
