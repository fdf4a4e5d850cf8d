"""Several ranks save one checkpoint through DCPWriter: in a directory, where they take turns, and in a bucket."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

import s4weights
from tests.api.dcp_ranks import STEPS
from tests.api.states import same

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]
RANKS = 2


def train(folder: Path, run: str, serialization: str, **environment: str) -> None:
    command = [sys.executable, "-m", "tests.api.dcp_ranks", str(folder), run, serialization]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(RANKS)],
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    for one in ranks:
        _, fault = one.communicate(timeout=100)
        assert one.returncode == 0, fault


def whole(run: str, trained: dict[str, object], endpoint: str | None = None) -> dict[str, object]:
    """What one process alone reads of the shards."""
    found = {"model": {name: torch.zeros_like(tensor) for name, tensor in trained["model"].items()}}
    dcp.load(found, storage_reader=s4weights.DCPReader(run, step=STEPS, endpoint=endpoint), no_dist=True)
    return found


@pytest.mark.parametrize("serialization", ["torch_save", "safetensors"])
def test_ranks_save_a_run_in_a_directory_and_one_process_reads_it(tmp_path, serialization):
    run = tmp_path / "run"
    train(tmp_path, str(run), serialization)
    assert s4weights.list_checkpoints(run) == list(range(1, STEPS + 1))
    for rank in range(RANKS):
        sizes = [
            sum(path.stat().st_size for path in (run / f"checkpoints/step-{step}").glob(f"__{rank}_*"))
            for step in range(1, STEPS + 1)
        ]
        # Adam's moments change at once after the first steps: the weights alone are worth a delta.
        assert sizes[-1] < sizes[0]
    trained = torch.load(tmp_path / "whole.pt")
    assert same(whole(str(run), trained), trained)


@pytest.mark.e2e
def test_ranks_save_a_run_in_a_bucket(tmp_path, seaweedfs, monkeypatch):
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    client = seaweedfs.client()
    client.create_bucket(Bucket="ranks")
    train(tmp_path, "s3://ranks/run", "torch_save", RUN_ENDPOINT=seaweedfs.endpoint)
    trained = torch.load(tmp_path / "whole.pt")
    assert same(whole("s3://ranks/run", trained, seaweedfs.endpoint), trained)
    assert s4weights.prune_checkpoints("s3://ranks/run", keep=1, endpoint=seaweedfs.endpoint) == [1, 2]
    assert same(whole("s3://ranks/run", trained, seaweedfs.endpoint), trained)
