"""Pickles that execute: the exploits that modelaudit keeps for its own tests, read and packed, and none of them runs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.codec.samples import pack, unpack
from tests.hostile.test_parsers import legacy, pickled_zip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SOURCE = "modelaudit==0.2.54"
ASSETS = (
    "tests/assets/exploits/",
    "tests/assets/samples/pytorch/malicious_eval.pt",
    "samples/archives/path_traversal.zip",
)

# In a process of its own, because an audit hook stays: whatever a pickle could do is an event of these.
WATCHED = """
import sys
from pathlib import Path
from s4weights.codec.encode import Encoder
seen = []
EVENTS = ("os.", "subprocess.", "socket.", "exec", "compile", "import", "open", "pickle.", "shutil.", "ctypes.")
bodies = [Path(name).read_bytes() for name in sys.argv[1:]]
warm = Encoder(); warm.plan(bodies[0]); warm.plan_end(); warm.finish()
watching = True
sys.addaudithook(lambda event, _: seen.append(event) if watching and event.startswith(EVENTS) else None)
for body in bodies:
    encoder = Encoder()
    encoder.plan(body)
    encoder.plan_end()
watching = False
print(len(bodies), sorted(set(seen)))
"""


@pytest.fixture(scope="module")
def exploits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Out of the source archive; nothing of it is installed or run."""
    folder = tmp_path_factory.mktemp("modelaudit")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "modelaudit"]
    subprocess.run([*command, "--dest", folder, SOURCE], check=True)
    found = {}
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        for member in archive:
            if member.isfile() and any(part in member.name for part in ASSETS):
                file = archive.extractfile(member)
                assert file is not None
                found[Path(member.name).name] = file.read()
    assert len(found) >= 11
    return found


def bodies(exploits: dict[str, bytes]) -> list[bytes]:
    """Each as it is, as the pickle of a zip, and as that of a legacy file."""
    shapes = [(data, pickled_zip(data), legacy(data)) for data in exploits.values()]
    return [body for shape in shapes for body in shape]


@pytest.mark.case(41)
def test_all_come_back(exploits):
    for body in bodies(exploits):
        assert unpack(pack(body)[0]) == body


@pytest.mark.case(39)
def test_none_of_them_runs(exploits, tmp_path):
    paths = []
    for number, body in enumerate(bodies(exploits)):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(body)
    before = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *paths], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{len(paths)} []"
    assert sorted(tmp_path.iterdir()) == before
