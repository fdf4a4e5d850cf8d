"""The kernels compiled for ARM, run by an emulator, write the same bytes as here; skipped without its compiler."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
PROGRAM = Path(__file__).parent / "digests.cpp"
ARM_COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"

AVX2 = ["-mavx2", "-mbmi2", "-mlzcnt", "-mpopcnt"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mpclmul", "-mvpclmulqdq"]
# By the end of a file's name; as in native/CMakeLists.txt.
WIDE = {"sse42": ["-msse4.2"], "avx2": AVX2, "avx512": AVX512}

pytestmark = pytest.mark.slow


def digests(folder: Path, compiler: str, *command: str) -> str:
    """What the program prints, compiled with no instruction set but the compiler's own."""
    plain = [
        path
        for path in sorted((NATIVE / "core").glob("*.cpp"))
        if not path.stem.endswith(("_avx2", "_avx512", "_sse42"))
    ]
    flags = ["-std=c++20", "-O2", "-static", f"-I{NATIVE}"]
    if compiler != ARM_COMPILER and platform.machine() == "x86_64":
        # Here the dispatch names them; nothing else may need their instructions.
        vectors = [path for path in sorted((NATIVE / "core").glob("*.cpp")) if path not in plain]
        for path in vectors:
            wide = WIDE[path.stem.rpartition("_")[2]]
            subprocess.run([compiler, *flags, *wide, "-c", str(path), "-o", str(folder / f"{path.stem}.o")], check=True)
        plain += [folder / f"{path.stem}.o" for path in vectors]
    program = folder / "digests"
    subprocess.run([compiler, *flags, *map(str, plain), str(PROGRAM), "-o", str(program)], check=True)
    arguments = [] if compiler == ARM_COMPILER else ["scalar"]
    return subprocess.run([*command, str(program), *arguments], check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(
    not (shutil.which(ARM_COMPILER) and shutil.which(EMULATOR) and shutil.which("g++")),
    reason=f"needs {ARM_COMPILER} and {EMULATOR}",
)
def test_arm_writes_the_same_bytes(tmp_path):
    for name in ("here", "arm"):
        (tmp_path / name).mkdir()
    here = digests(tmp_path / "here", "g++")
    # Types, sizes and levels; alone and from a base; bf16 and fp32 from one another.
    assert len(here.splitlines()) == 6 * 3 * 3 * 2 + 2 * 3 * 3
    assert {line.split("predictor ")[1][0] for line in here.splitlines()} == set("012345")
    assert digests(tmp_path / "arm", ARM_COMPILER, EMULATOR) == here
