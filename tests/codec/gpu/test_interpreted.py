"""tests/gpu in Triton's interpreter, on machines without a GPU: in processes of their own, since importing fixes the mode."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(path.name for path in (ROOT / "tests/gpu").glob("test_*.py"))
# Quick enough for every run: rANS with its damage, and a batch with something of everything.
QUICK = ("test_rans.py", "test_quick.py")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is there for Linux on x86_64 only"
)


def interpret(name: str, marks: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=1500"]
    command += ["-m", marks, f"tests/gpu/{name}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    # 5: all left out by their marks.
    assert done.returncode in (0, 5), done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUICK)
def test_quick_ones(name):
    interpret(name, "not slow")


@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("name", [name for name in FILES if name not in QUICK])
def test_the_others(name):
    interpret(name, "not slow")


@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("name", FILES)
def test_long_ones(name):
    interpret(name, "slow")
