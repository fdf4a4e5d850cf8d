"""The benchmarks measure what they say: true checkpoints, and their own section of the results."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from s4weights.codec.engines import NativeEngine

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch):
    """The scripts' folder to import from, and one thread: other tests run beside these."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def checkpoints(folder: Path, precision: str, steps: list[int]) -> list[Path]:
    from train_gpt import save_checkpoints

    return save_checkpoints(folder, "tiny", [precision], steps)


@pytest.mark.parametrize(
    ("precision", "model", "state"),
    [
        ("fp32", torch.float32, torch.float32),
        ("mixed", torch.bfloat16, torch.float32),
        ("bf16", torch.bfloat16, torch.bfloat16),
    ],
)
def test_a_checkpoint_holds_what_a_resumed_run_needs(tmp_path, precision, model, state):
    whole, weights = checkpoints(tmp_path, precision, [2])
    loaded = torch.load(whole, weights_only=True)
    assert loaded["step"] == 2
    assert {tensor.dtype for tensor in loaded["model"].values()} == {model}
    assert {one[name].dtype for one in loaded["optimizer"]["state"].values() for name in ("exp_avg", "exp_avg_sq")} == {
        state
    }
    assert ("master" in loaded) is (precision == "mixed")
    for name, tensor in loaded.get("master", {}).items():
        assert torch.equal(tensor.to(model), loaded["model"][name])
    stored = load(weights.read_bytes())
    assert all(torch.equal(stored[name], tensor) for name, tensor in loaded["model"].items())


def test_the_same_seed_makes_the_same_weights_and_steps_change_them(tmp_path):
    once, twice = (load(checkpoints(tmp_path / name, "mixed", [2])[1].read_bytes()) for name in "ab")
    later = load(checkpoints(tmp_path / "c", "mixed", [4])[1].read_bytes())
    assert all(torch.equal(once[name], twice[name]) for name in once)
    assert not all(torch.equal(once[name], later[name]) for name in once)


def test_training_learns():
    from train_gpt import Run

    run = Run("tiny", bf16=False)
    first = run.train(1)
    assert run.train(7) < 0.8 * first


@pytest.mark.parametrize("step", [1 << 20, 999_983])
def test_the_body_of_the_memory_benchmark_is_a_checkpoint_however_it_is_read(step):
    from codec_bodies import pack
    from memory_bench import Checkpoint

    size = (32 << 20) + 5000
    source = Checkpoint(size)
    pieces = []
    while piece := source.read(step):
        pieces.append(piece)
    body = b"".join(pieces)
    source.seek(20 << 20)
    assert source.read(4096) == body[20 << 20 :][:4096]
    assert len(body) == size
    assert load(body)["weight"].dtype is torch.bfloat16
    assert 1.4 < size / len(pack(body, NativeEngine())[0]) < 1.6


@pytest.mark.e2e
def test_memory_is_measured_while_a_body_comes_back_identical():
    from memory_bench import measure

    size, idle, put, get, ratio, *_, identical = measure(16 << 20)
    assert (size, identical) == ("0.015625 GiB", "yes")
    assert 0 < int(idle) <= int(put) <= int(get)
    assert float(ratio) > 1.4


@pytest.mark.e2e
@pytest.mark.slow
def test_a_soak_compares_all_that_comes_back_and_leaves_nothing_open():
    from soak import soak

    rows, tally, _, faults = soak(0.15, 2, upload_age_s=3)
    assert faults == []
    assert [row[0] for row in rows] == ["RSS, MiB", "descriptors", "tasks", "state files", "open uploads"]
    assert tally.done["put"]


def test_a_soak_finds_what_grows_and_allows_what_stays():
    from soak import MAY_GROW, grown

    steady = [dict.fromkeys(MAY_GROW, 100.0 + number % 5) for number in range(50)]
    assert grown(steady)[1] == []
    leaking = [{**one, "descriptors": 100.0 + number} for number, one in enumerate(steady)]
    rows, faults = grown(leaking)
    assert faults == ["descriptors grew from 114 to 144"]
    assert rows[1] == ["descriptors", "104", "114", "124", "134", "144", "149"]


def test_a_section_of_the_results_is_replaced_and_the_others_stay(tmp_path, monkeypatch):
    import results

    monkeypatch.setattr(results, "RESULTS", tmp_path / "RESULTS.md")
    for title, text in [("One", "old"), ("Two", "two"), ("Three", "three"), ("One", "new"), ("Three", "3")]:
        results.write_section(title, text)
    written = (tmp_path / "RESULTS.md").read_text()
    assert [line for line in written.splitlines() if line][2:] == [
        *("## One", "new", "## Two", "two", "## Three", "3"),
    ]


def test_a_section_that_is_no_longer_written_can_be_dropped(tmp_path, monkeypatch):
    import results

    monkeypatch.setattr(results, "RESULTS", tmp_path / "RESULTS.md")
    for title in ("One", "Two", "Three"):
        results.write_section(title, title.lower())
    for title in ("Two", "Three", "never there"):
        results.drop_section(title)
    lines = (tmp_path / "RESULTS.md").read_text().splitlines()
    assert [line for line in lines if line][2:] == ["## One", "one"]
