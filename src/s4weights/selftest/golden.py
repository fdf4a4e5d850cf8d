"""The format's golden vectors, shipped with the package: what was written once is read for ever."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from s4weights.codec.decode import decode_frame, iter_body, read_reference
from s4weights.codec.engines import Engine
from s4weights.codec.errors import FormatError

_WITH_BASES: Final = frozenset({"delta", "delta-of-delta", "twins"})


@dataclass(frozen=True, slots=True)
class Vector:
    """Stored bytes. sha256: of the body; empty where the frame's own hash is all that says what it was."""

    name: str
    stored: bytes
    sha256: str

    def fault(self, engine: Engine) -> str:
        """What is wrong with what an engine makes of it; empty where nothing is."""
        try:
            if not self.sha256:
                decode_frame(self.stored, engine, where=self.name)
                return ""
            found = hashlib.sha256(b"".join(iter_body(io.BytesIO(self.stored), engine, where=self.name))).hexdigest()
        except FormatError as error:
            return str(error)
        return "" if found == self.sha256 else f"expected SHA-256 {self.sha256}, found {found}"


def vectors() -> Iterator[Vector]:
    """All of them. Raises: OSError where the package is not whole."""
    folder = files("s4weights.selftest") / "golden"
    known = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for name, about in known.items():
        # What needs another body, or refers to its own, is read by the tests, which bring it along.
        if name in _WITH_BASES:
            continue
        yield Vector(f"{name}.s4w", (folder / f"{name}.s4w").read_bytes(), about["sha256"])
    frames = sorted((folder / "frames").iterdir(), key=lambda path: path.name)
    for path in frames:
        stored = path.read_bytes()
        if read_reference(stored) is None:
            yield Vector(path.name, stored, "")
