"""Every kernel compiles for GPUs that are not here: nothing on the stack, nothing spilled, registers within its budget."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is there for Linux on x86_64 only"
)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("capability", ["89", "90"])
def test_kernels_compile_within_their_budgets(capability, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.codec.gpu.aot", capability],
        cwd=ROOT,
        env={**environment, "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert len(found) > 60
    for name, needs in found.items():
        assert needs["STACK"] == needs["LOCAL"] == 0, name
        assert needs["REG"] <= needs["budget"], f"{name}: expected at most {needs['budget']} registers, found {needs}"
