"""zipnn as a candidate, seen from outside its process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from s4weights.codec.types import ElementType

from .candidate import DECODE, ENCODE, CandidateFailed, Step

ZIPNN_TYPES: Final = {
    ElementType.BF16: "bfloat16",
    ElementType.F16: "float16",
    ElementType.F32: "float32",
    ElementType.F8_E4M3: "float8_e4m3fn",
    ElementType.F8_E5M2: "float8_e5m2",
}
_END_S: Final = 10.0


class ZipnnPeer:
    """See Candidate. A crash of its process is CandidateFailed."""

    def __init__(self, element: ElementType, blocks: Sequence[bytes]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this Python and a module of ours
            [sys.executable, "-m", f"{__package__}.zipnn_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        about = {"dtype": ZIPNN_TYPES[element], "lengths": [len(block) for block in blocks]}
        try:
            self._send((json.dumps(about) + "\n").encode(), *blocks)
            self._about = self._ask("check")
        except CandidateFailed:
            self.close()
            raise

    @property
    def steps(self) -> dict[str, Step]:
        """See Candidate."""
        return {
            ENCODE: lambda: self._ask("encode")["seconds"],
            DECODE: lambda: self._ask("decode")["seconds"],
        }

    def stored_bytes(self) -> int:
        """See Candidate."""
        return int(self._about["stored_bytes"])

    def is_identical(self) -> bool:
        """See Candidate."""
        return bool(self._about["identical"])

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    @property
    def _stdout(self) -> Any:
        return self._process.stdout

    def _send(self, *pieces: bytes) -> None:
        try:
            for piece in pieces:
                self._stdin.write(piece)
            self._stdin.flush()
        except OSError:
            raise self._failure() from None

    def _ask(self, step: str) -> dict[str, Any]:
        self._send(f"{step}\n".encode())
        line = self._stdout.readline()
        if not line:
            raise self._failure()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _failure(self) -> CandidateFailed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        return CandidateFailed(f"zipnn: its process ended with {self._process.returncode}")
