"""Compare the committed stub of the native module with what the module itself says; --write renews it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).resolve().parent.parent / "codec" / "_native.pyi"


def generated() -> str:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "_native.pyi"
        subprocess.run(
            [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "s4weights.codec._native", "-o", str(out)],
            check=True,
        )
        return out.read_text(encoding="utf-8")


if __name__ == "__main__":
    text = generated()
    if "--write" in sys.argv:
        STUB.write_text(text, encoding="utf-8")
    elif not STUB.is_file() or STUB.read_text(encoding="utf-8") != text:
        sys.exit(f"{STUB.name} differs from the module: run `make stubs`")
