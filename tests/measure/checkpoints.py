"""Checkpoints of a model that is really trained, as torch and safetensors write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

STEPS = 6


def train(width: int, layers: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A few steps of AdamW; the embedding is used in part only, so much of its m and v is 0."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    blocks: list[torch.nn.Module] = [torch.nn.Embedding(1000, width)]
    for _ in range(layers):
        blocks += [torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)]
        blocks += [torch.nn.LayerNorm(width)]
    model = torch.nn.Sequential(*blocks, torch.nn.Linear(width, 1000))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        tokens = torch.randint(0, 1000, (32,))
        loss = torch.nn.functional.cross_entropy(model(tokens), (tokens * 7 + 1) % 1000)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.set_num_threads(threads)
    return model, optimizer


def save_all(folder: Path, width: int, layers: int) -> dict[str, Path]:
    """mixed.pt: bf16 model, fp32 master, m and v. bf16.safetensors, fp32.safetensors: the weights."""
    model, optimizer = train(width, layers)
    weights = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    halved = {name: tensor.bfloat16() for name, tensor in weights.items()}
    state: dict[str, Any] = {"model": halved, "master": weights, "optimizer": optimizer.state_dict()}
    torch.save(state, folder / "mixed.pt")
    save_file(halved, folder / "bf16.safetensors")
    save_file(weights, folder / "fp32.safetensors")
    return {path.name: path for path in sorted(folder.iterdir())}
