"""A language model small enough for a test and big enough that its checkpoints are worth a delta.

Runs on one thread, without dropout, so that two runs give the same bits. It diverges under way, so that the best checkpoint
is not the last. These modules run in `.venv-frameworks`, by themselves.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

SAVE_EVERY = 5
BEST_STEP, LAST_STEP, STEPS = 15, 25, 30
BATCH = 8
VOCABULARY, WIDTH = 256, 128


def set_up() -> None:
    """Call first."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(7)


class Model(nn.Module):
    """The next token from this one: 1.9 MiB of weights in fp32."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Embedding(VOCABULARY, WIDTH),
            nn.Linear(WIDTH, 8 * WIDTH),
            nn.GELU(),
            nn.Linear(8 * WIDTH, 2 * WIDTH),
            nn.LayerNorm(2 * WIDTH),
            nn.Linear(2 * WIDTH, VOCABULARY),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.layers(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def tokens(seed: int, count: int = BATCH) -> Tensor:
    """Sequences with a pattern that can be learned, and noise. Shape (count, 33)."""
    random = torch.Generator().manual_seed(seed)
    noise = torch.randint(0, 4, (count, 33), generator=random)
    return (torch.randint(0, VOCABULARY, (count, 1), generator=random) + torch.arange(33) * 7 + noise) % VOCABULARY


def direction(step: int) -> int:
    """What the loss of the update after so many is multiplied by: the run diverges once it is past its best checkpoint."""
    return 1 if step < BEST_STEP else -1


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """One that turns round quickly."""
    return torch.optim.AdamW(model.parameters(), 2e-4, betas=(0.5, 0.95))


def held_out() -> Tensor:
    """What checkpoints are judged by."""
    return tokens(1000, 4 * BATCH)


def run(phases: dict[str, Callable[[str], Any]]) -> None:
    """`SCRIPT URI RESULT PHASE...`: run the phases in order, write what each of them returns to RESULT."""
    _, uri, result, *names = sys.argv
    set_up()
    Path(result).write_text(json.dumps({name: phases[name](uri) for name in names}))
