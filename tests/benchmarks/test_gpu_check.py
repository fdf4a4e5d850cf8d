"""gpu_check.sh: without a GPU each step ends with its named refusal; its parts work on a device that is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_check, gpu_figures
from s4weights.codec.gpu import ans_planes, nvcomp, usable
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.gpu.slots import RingSize
from tests.codec.gpu import fake_nvcomp
from tests.codec.gpu.fake import FakeDevice, Faults, raising

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks/gpu_check.sh"
STEPS = ("device", "tests", "selftest", "memcheck", "racecheck", "gdeflate", "figures")


@pytest.fixture
def gpu(monkeypatch):
    engines = []
    monkeypatch.setattr(nvcomp, "load_nvcomp", lambda: fake_nvcomp)
    monkeypatch.setattr(ans_planes, "_coders", type("Coders", (), {})())

    def make(faults=None):
        def shared_engine(memory_bytes, entropy):
            engines.append(GpuEngine(FakeDevice(faults, delay_s=0), RingSize(3, 2 << 20), gather_s=0, entropy=entropy))
            return engines[-1]

        monkeypatch.setattr(usable, "shared_engine", shared_engine)

    yield make
    for engine in engines:
        engine.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_a_gpu_every_step_says_what_is_missing(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run([SCRIPT, tmp_path / "out"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    found = json.loads((tmp_path / "out/check.json").read_text())["steps"]
    assert tuple(found) == STEPS
    for name in ("device", "gdeflate", "figures"):
        assert found[name]["code"] == 3
        assert found[name]["last"].startswith("gpu: ")
    assert "s4weights selftest: gpu: " in found["selftest"]["last"]
    for name in ("memcheck", "racecheck"):
        assert (
            "compute-sanitizer is missing" in found[name]["last"]
            or "gpu: " in (tmp_path / f"out/{name}.log").read_text()
        )
    assert done.stdout.splitlines()[-1].startswith("no GPU: gpu: ")


def test_the_script_is_sound_and_says_how_to_call_it():
    subprocess.run([Path(sys.executable).parent / "shellcheck", SCRIPT], check=True)
    done = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: benchmarks/gpu_check.sh [--wheels FOLDER] OUT" in done.stderr


def test_a_device_passes_each_step(gpu, capsys):
    gpu()
    for step in ("device", "small", "gdeflate"):
        assert gpu_check.main([step]) == 0, capsys.readouterr().out
    assert "0 faults" in capsys.readouterr().out


def test_a_device_that_fails_fails_its_step(gpu, capsys):
    gpu(Faults(encode={1: raising(RuntimeError("launch"))}))
    assert gpu_check.main(["small"]) == 1
    assert "1 faults" in capsys.readouterr().out


def test_figures_of_a_device_become_a_section(gpu, tmp_path):
    gpu()
    engine = usable.shared_engine(0, "open")
    figures = gpu_figures.measure(engine, size=3 << 20, rounds=1)
    assert figures["faults"] == 0
    assert [row["name"] for row in figures["bodies"]] == ["fp32 weights", "bf16 weights", "fp32 second moments"]
    for row in figures["bodies"]:
        assert 0.3 < row["stored"] < 0.9
        assert min(row["encode"], row["decode"], row["device"]["encode"], row["native"]["decode"]) > 0
    (tmp_path / "figures.json").write_text(json.dumps(figures))
    (tmp_path / "steps").write_text("device 0\nfigures 0\ntests 1\n")
    for name in ("device", "figures", "tests"):
        (tmp_path / f"{name}.log").write_text("last line\n")
    assert gpu_check.main(["report", str(tmp_path)]) == 1
    section = (tmp_path / "section.md").read_text()
    assert "| bf16 weights |" in section
    assert "DietGPU, rANS on bytes, A100: 250 to 410 GB/s" in section
    assert json.loads((tmp_path / "check.json").read_text())["steps"]["tests"] == {
        "passed": False,
        "code": 1,
        "last": "last line",
    }
