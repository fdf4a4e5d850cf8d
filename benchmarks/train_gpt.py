"""Train a small byte-level GPT with AdamW on Python's own source, and keep real checkpoints of it.

The text is the standard library of the running Python: real structure, on every machine, nothing to fetch.
"""

from __future__ import annotations

import argparse
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

BYTES = 256


@dataclass(frozen=True)
class Size:
    """layers, heads, width (features), context (bytes seen at once)."""

    layers: int
    heads: int
    width: int
    context: int


SIZES = {"tiny": Size(4, 4, 128, 64), "small": Size(6, 6, 432, 128)}
PRECISIONS = ("fp32", "mixed", "bf16")


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a norm."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm1 = nn.LayerNorm(size.width)
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)
        self.norm2 = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, 4 * size.width)
        self.down = nn.Linear(4 * size.width, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Bytes in, logits of the next byte out."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(BYTES, size.width)
        self.positions = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, BYTES, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def source_text(limit: int = 4 << 20) -> torch.Tensor:
    """Bytes of the standard library's modules, in order of their names."""
    data = bytearray()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        data += path.read_bytes()
        if len(data) >= limit:
            break
    return torch.frombuffer(data[:limit], dtype=torch.uint8).long()


class Run:
    """A training run, whose weights are bf16 or fp32.

    Of a run in fp32 two checkpoints are kept: `fp32`, and `mixed`, a bf16 model beside fp32 master weights, m and v, as GPU
    runs keep them. Steps of a mixed run are computed in fp32, since CPUs are slow in bf16. Passes in bf16 (autocast) were
    tried: the checkpoints of 100 steps then take the same stored bytes within 0.01 %.
    """

    def __init__(self, size: str, *, bf16: bool, seed: int = 0, batch: int = 16) -> None:
        torch.manual_seed(seed)
        self.size, self.batch = SIZES[size], batch
        self.model = GPT(self.size)
        if bf16:
            self.model.bfloat16()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.1)
        self.text = source_text()
        self.step = 0

    def train(self, steps: int) -> float:
        """Go on for so many steps; returns the last loss."""
        loss = torch.tensor(0.0)
        for _ in range(steps):
            starts = torch.randint(len(self.text) - self.size.context - 1, (self.batch,))
            rows = torch.stack([self.text[start : start + self.size.context + 1] for start in starts.tolist()])
            logits = self.model(rows[:, :-1])
            loss = functional.cross_entropy(logits.float().reshape(-1, BYTES), rows[:, 1:].reshape(-1))
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            self.step += 1
        return float(loss.detach())

    def model_state(self, precision: str) -> dict[str, torch.Tensor]:
        """The weights that inference would load."""
        dtype = torch.float32 if precision == "fp32" else torch.bfloat16
        return {name: tensor.detach().to(dtype).contiguous() for name, tensor in self.model.state_dict().items()}

    def checkpoint(self, precision: str) -> dict[str, Any]:
        """All that a resumed run needs: model, optimizer and, in mixed precision, the master weights."""
        state: dict[str, Any] = {
            "step": self.step,
            "model": self.model_state(precision),
            "optimizer": self.optimizer.state_dict(),
        }
        if precision == "mixed":
            state["master"] = {name: tensor.detach() for name, tensor in self.model.state_dict().items()}
        return state


def save_checkpoints(folder: Path, size: str, precisions: Sequence[str], steps: Sequence[int]) -> list[Path]:
    """Train and write gpt-SIZE-PRECISION-STEP.pt and .safetensors at each of the steps; files that are there stay."""
    for names, bf16 in ((("fp32", "mixed"), False), (("bf16",), True)):
        wanted = [name for name in names if name in precisions]
        if all(path.exists() for path in checkpoint_paths(folder, size, wanted, steps)):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        run = Run(size, bf16=bf16)
        for step in steps:
            run.train(step - run.step)
            for precision in wanted:
                pt, safetensors = checkpoint_paths(folder, size, [precision], [step])
                torch.save(run.checkpoint(precision), pt)
                save_file(run.model_state(precision), safetensors)
    return checkpoint_paths(folder, size, precisions, steps)


def checkpoint_paths(folder: Path, size: str, precisions: Sequence[str], steps: Sequence[int]) -> list[Path]:
    """Where save_checkpoints writes: by precision and step, .pt and then .safetensors."""
    return [
        folder / f"gpt-{size}-{precision}-{step}{end}"
        for precision in precisions
        for step in steps
        for end in (".pt", ".safetensors")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--precision", choices=PRECISIONS, nargs="+", default=["mixed"])
    parser.add_argument("--steps", type=int, nargs="+", default=[20])
    options = parser.parse_args()
    for path in save_checkpoints(options.folder, options.size, options.precision, options.steps):
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
