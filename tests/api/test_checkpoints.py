"""Checkpoints of a run: steps, deltas, pruning, several threads and processes."""

from __future__ import annotations

import io
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import s4weights
from s4weights.api.body_pipe import saved_bytes
from s4weights.codec.errors import ConfigError
from tests.api.states import same


def training(steps: int, rows: int = 600) -> list[dict[str, object]]:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(rows, 1000, generator=generator)
    states = []
    for step in range(steps):
        weight = weight + 1e-5 * torch.randn(rows, 1000, generator=generator)
        states.append({"weight": weight, "step": step})
    return states


def stored_bytes(run, step):
    return (run / f"checkpoints/step-{step}/checkpoint.pt").stat().st_size


def test_steps_are_deltas_and_each_comes_back_whatever_is_pruned(tmp_path):
    run = tmp_path / "run"
    states = training(4)
    for step, state in enumerate(states):
        s4weights.save_checkpoint(state, run, step=step)
    assert s4weights.list_checkpoints(run) == [0, 1, 2, 3]
    assert stored_bytes(run, 1) < 0.8 * stored_bytes(run, 0)
    assert same(s4weights.load_checkpoint(run), states[3])
    assert same(s4weights.load_checkpoint(run, 1), states[1])
    assert s4weights.prune_checkpoints(run, keep=1, keep_every=2) == [1]
    assert s4weights.prune_checkpoints(run, keep=1) == [0, 2]
    assert s4weights.list_checkpoints(run) == [3]
    assert same(s4weights.load_checkpoint(run), states[3])


def test_a_copy_in_another_precision_costs_little(tmp_path):
    master = {name: torch.randn(700, 1000) for name in ("a", "b")}
    rounded = {name: tensor.bfloat16() for name, tensor in master.items()}
    for step, state in enumerate([{"master": master}, {"master": master, "model": rounded}]):
        s4weights.save_checkpoint(state, tmp_path / str(step), step=0)
    alone, both = (stored_bytes(tmp_path / str(step), 0) for step in range(2))
    assert both < 1.02 * alone
    assert same(s4weights.load_checkpoint(tmp_path / "1"), {"master": master, "model": rounded})
    assert {path.name for path in (tmp_path / "1").iterdir()} == {"checkpoints", ".s4weights", ".s4weights-calls"}


def test_what_a_process_left_that_died_is_no_bucket_and_goes(tmp_path):
    (tmp_path / ".s4weights-state/containers").mkdir(parents=True)
    (tmp_path / ".s4weights-state/containers/x.partial").write_bytes(b"half")
    s4weights.save_checkpoint({"a": 1}, tmp_path, step=1)
    assert not (tmp_path / ".s4weights-state").exists()


def test_a_step_is_replaced_and_a_save_that_fails_changes_nothing(tmp_path):
    s4weights.save_checkpoint({"a": 1}, tmp_path, step=5)
    s4weights.save_checkpoint({"a": 2}, tmp_path, step=5)
    with pytest.raises(AttributeError):
        s4weights.save_checkpoint({"weight": torch.randn(4000, 1000), "bad": lambda: None}, tmp_path, step=5)
    assert s4weights.load_checkpoint(tmp_path, step=5) == {"a": 2}


def test_of_a_steps_folder_only_a_checkpoints_files_are_pruned(tmp_path):
    for step in (1, 2):
        s4weights.save_checkpoint({"a": step}, tmp_path, step=step)
    steps = tmp_path / "checkpoints"
    others = [
        "step-1/config.json",
        "step-1/logs/events.1",
        "step-1/__0_0.distcp.bak",
        "step-0/notes.txt",
        "step-01/checkpoint.pt",
        "step-1x/checkpoint.pt",
        "step-٠/checkpoint.pt",
        f"step-{'9' * 200}/checkpoint.pt",
    ]
    for name in others:
        (steps / name).parent.mkdir(parents=True, exist_ok=True)
        (steps / name).write_bytes(b"mine")
        os.utime(steps / name, (1, 1))
    assert s4weights.list_checkpoints(tmp_path) == [1, 2]
    assert s4weights.prune_checkpoints(tmp_path, keep=1) == [1]
    assert {name: (steps / name).read_bytes() for name in others} == dict.fromkeys(others, b"mine")
    assert not (steps / "step-1/checkpoint.pt").exists()
    assert s4weights.list_checkpoints(tmp_path) == [2]


def test_what_is_not_there_is_named(tmp_path):
    assert s4weights.list_checkpoints(tmp_path / "none") == []
    with pytest.raises(FileNotFoundError, match="none"):
        s4weights.load_checkpoint(tmp_path / "none")
    s4weights.save_checkpoint({"a": 1}, tmp_path, step=5)
    with pytest.raises(FileNotFoundError, match=r"expected step 6, found the steps \[5\]"):
        s4weights.load_checkpoint(tmp_path, step=6)
    for step in (-1, True, "5", 1 << 63, 10**100):
        with pytest.raises(ConfigError, match="step: expected"):
            s4weights.save_checkpoint({}, tmp_path, step=step)
    with pytest.raises(ConfigError, match="keep=0"):
        s4weights.prune_checkpoints(tmp_path, keep=0)


def test_several_threads_take_turns(tmp_path):
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda step: s4weights.save_checkpoint({"step": step}, tmp_path, step=step), range(3)))
    assert [s4weights.load_checkpoint(tmp_path, step=step)["step"] for step in range(3)] == [0, 1, 2]


def in_a_child(run):
    s4weights.save_checkpoint({"from": "child"}, run, step=s4weights.load_checkpoint(run)["next"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's own on fork beside threads: that is the test
def test_a_forked_child_works_on_the_run_too(tmp_path):
    s4weights.save_checkpoint({"next": 2}, tmp_path, step=1)
    child = multiprocessing.get_context("fork").Process(target=in_a_child, args=(tmp_path,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert s4weights.load_checkpoint(tmp_path) == {"from": "child"}


@pytest.mark.e2e
def test_a_run_in_a_bucket(seaweedfs, monkeypatch):
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    seaweedfs.client().create_bucket(Bucket="runs")
    states = training(3)
    for step, state in enumerate(states):
        s4weights.save_checkpoint(state, "s3://runs/gpt", step=step, endpoint=seaweedfs.endpoint)
    assert s4weights.prune_checkpoints("s3://runs/gpt", keep=1, endpoint=seaweedfs.endpoint) == [0, 1]
    assert s4weights.list_checkpoints("s3://runs/gpt", endpoint=seaweedfs.endpoint) == [2]
    assert same(s4weights.load_checkpoint("s3://runs/gpt", endpoint=seaweedfs.endpoint), states[2])


@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about quantized tensors themselves
def test_the_length_of_a_state_that_torch_cannot_skip_is_known_all_the_same():
    quantized = torch.quantize_per_tensor(torch.arange(1000.0), 0.5, 3, torch.quint8)
    plain = io.BytesIO()
    torch.save({"q": quantized}, plain)
    assert saved_bytes({"q": quantized}) == len(plain.getvalue())
