"""One root with the service installed as an operator installs it, for all tests that boot it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ops.machine import BUILD, ROOT, Machine, base_root, enter, layered, missing_tools

BOOT_TOOLS = (
    ("mmdebstrap", "apt-get install mmdebstrap"),
    ("systemd-nspawn", "apt-get install systemd-container"),
    ("systemd-analyze", "apt-get install systemd"),
)


@pytest.fixture(scope="session")
def wheels() -> Path:
    """The wheelhouse of this source, by the script that an operator runs."""
    if reason := missing_tools(*BOOT_TOOLS):
        pytest.skip(reason)
    folder = BUILD / "wheels"
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = ["packer/wheelhouse.sh", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def installed_root(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Debian root on which packer/install.sh has run."""
    with layered(base_root(), tmp_path_factory.mktemp("installed")) as root:
        (root / "src").mkdir()
        binds = {ROOT / "packer": "/src/packer", wheels: "/src/wheels"}
        said = enter(root, "/src/packer/install.sh", "/src/wheels", binds=binds)
        assert "is at /opt/s4weights" in said
        yield root


@pytest.fixture
def machine(installed_root: Path, tmp_path: Path) -> Iterator[Machine]:
    """That root, booted, with a directory for a bucket; the service is not yet started."""
    with layered(installed_root, tmp_path / "machine") as root:
        settings = root / "etc/s4weights/s4weights.env"
        named = settings.read_text().replace("S4W_UPSTREAM=\n", "S4W_UPSTREAM=/var/lib/s4weights/buckets\n")
        assert named != settings.read_text()
        settings.write_text(named)
        (root / "usr/lib/tmpfiles.d/test.conf").write_text(
            "d /var/lib/s4weights 0700 s4weights s4weights\nd /var/lib/s4weights/buckets 0700 s4weights s4weights\n"
            "d /var/lib/s4weights/buckets/training 0700 s4weights s4weights\n"
        )
        with Machine(root, tmp_path / "console") as machine:
            yield machine
