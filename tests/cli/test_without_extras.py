"""The command line where only the package's own dependencies are installed: files need no more, the rest says what is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.proxy.objects.conftest import safetensors

ROOT = Path(__file__).parents[2]
# In front of all other finders: what no requirement of the package names is not there.
ALONE = """
import sys
from importlib.metadata import packages_distributions
there = set({there!r})
gone = {{name for name, of in packages_distributions().items() if not there.intersection(map(str.lower, of))}}
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in gone:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Finder())
from s4weights.cli import main
sys.exit(main(sys.argv[1:]))
"""


def requirements() -> list[str]:
    """Of the package without extras, with what rich brings, and the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = [re.split(r"[^a-z0-9_-]", one, maxsplit=1)[0] for one in project["dependencies"]]
    return [*own, "markdown-it-py", "mdurl", "pygments", "s4weights"]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = ALONE.format(there=requirements())
    return subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True)


def test_files_are_packed_inspected_and_unpacked(tmp_path: Path) -> None:
    import numpy as np

    body = safetensors(np.random.default_rng(0).normal(0, 0.02, 200_000))
    file = tmp_path / "model.safetensors"
    file.write_bytes(body)
    packed = tmp_path / "model.safetensors.s4w"
    for arguments in (["--version"], ["--help"], ["pack", file], ["inspect", packed]):
        done = run(*arguments)
        assert done.returncode == 0, done.stderr
    file.unlink()
    assert run("unpack", packed).returncode == 0
    assert file.read_bytes() == body


@pytest.mark.parametrize("command", ["verify", "explain", "gc", "repack"])
def test_what_needs_the_proxy_says_so(command: str, tmp_path: Path) -> None:
    done = run(command, "bucket/key", "--upstream", tmp_path)
    assert done.returncode == 1
    assert "is missing: pip install 's4weights[proxy]'" in done.stderr
    assert "Traceback" not in done.stderr
