"""Two ranks train a model sharded by torch's own FSDP, save every step through DCPWriter, and load one again.

Usage: python -m tests.api.dcp_ranks FOLDER RUN SERIALIZATION RANK RANKS. Every rank is a process; they meet at FOLDER/meet, and
rank 0 leaves the whole of what it trained at FOLDER/whole.pt.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import SerializationFormat
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import s4weights

STEPS = 3
WIDTH = 512


def model_of(ranks: int) -> torch.nn.Module:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(1_001, WIDTH), torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)
    )
    fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    return model


def main(folder: Path, run: str, serialization: str, rank: int, ranks: int) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    endpoint = os.environ.get("RUN_ENDPOINT")
    model = model_of(ranks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=False)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        model(torch.randint(0, 1_001, (8, 16))).pow(2).mean().backward()
        optimizer.step()
        weights, state = get_state_dict(model, optimizer)
        writer = s4weights.DCPWriter(
            run, step=step, endpoint=endpoint, serialization_format=SerializationFormat(serialization)
        )
        dcp.save({"model": weights, "optimizer": state}, storage_writer=writer)
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))

    again = model_of(ranks)
    optimizer = torch.optim.AdamW(again.parameters(), foreach=False)
    weights, state = get_state_dict(again, optimizer)
    found = {"model": weights, "optimizer": state}
    dcp.load(found, storage_reader=s4weights.DCPReader(run, step=STEPS, endpoint=endpoint))
    set_state_dict(again, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
    back = get_model_state_dict(again, options=StateDictOptions(full_state_dict=True))
    assert whole.keys() == back.keys()
    assert all(torch.equal(whole[name], back[name]) for name in whole)
    if rank == 0:
        torch.save({"model": whole}, folder / "whole.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), *sys.argv[2:4], *map(int, sys.argv[4:6]))
    # gloo's threads outlive their group: torch 2.13 alone aborted in 6 of 50 runs while the interpreter ended.
    sys.stdout.flush()
    os._exit(0)
