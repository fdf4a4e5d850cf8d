"""The examples of docs/pytorch.md run, in order, in one folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/pytorch.md"


@pytest.mark.filterwarnings("ignore:torch.distributed is:UserWarning")  # of torch, about being alone
def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    # The last example trains on.
    assert torch.equal(names["state"]["model"]["weight"] + 1, names["model"].state_dict()["weight"])
