"""A torch that is too old, or has no torch.distributed, is refused by name; in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from s4weights.api.torch_floor import _OLDEST

ROOT = Path(__file__).parents[2]


def fault_of(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


@pytest.mark.parametrize("version", ["2.7.1+cu126", "1.13.0", "unknown"])
def test_an_old_torch_is_refused_when_the_api_is_first_asked_for(version):
    code = f"import torch, s4weights\ntorch.__version__ = {version!r}\ns4weights.__version__\ns4weights.save"
    assert re.match(rf"ImportError: s4weights needs torch 2\.8 or newer, found {re.escape(version)}", fault_of(code))


@pytest.mark.parametrize("version", ["2.8.0a0+git", "2.10.0", "3.0"])
def test_a_newer_one_is_not(version):
    assert fault_of(f"import torch, s4weights\ntorch.__version__ = {version!r}\ns4weights.save") == ""


def test_a_torch_without_distributed_is_named_where_it_is_needed():
    code = (
        "import torch, s4weights\ntorch.distributed.is_available = lambda: False\ns4weights.save\ns4weights.DCPWriter"
    )
    assert fault_of(code).startswith("ImportError: DCPWriter and DCPReader need torch.distributed")


def test_the_floor_is_said_in_one_way():
    text = ".".join(map(str, _OLDEST))
    assert f'"torch>={text}"' in (ROOT / "pyproject.toml").read_text()
    assert f"torch {text} or newer" in (ROOT / "docs/pytorch.md").read_text()
