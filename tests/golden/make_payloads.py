"""Make the golden payloads: one a type, by the reference. Files that exist are never written again."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from s4weights.codec.engines import Engine, ReferenceEngine
from s4weights.codec.types import ElementType

FOLDER = Path(__file__).parent / "v1" / "payloads"
ELEMENTS = 1_000


def logical(element: ElementType) -> bytes:
    """Integers only, so that no library's version can change it: noise below, few values on top, zeros between."""
    if element is ElementType.BYTES:
        return b"never show a wrong byte; " * 16
    numbers = np.arange(ELEMENTS, dtype=np.uint64)
    octets = np.zeros((ELEMENTS, element.width), dtype=np.uint8)
    octets[:, 0] = numbers * 2_654_435_761 >> 16 & 0xFF
    octets[:, -1] = 60 + numbers * numbers % 7 % 5
    return octets.tobytes()


def payload(element: ElementType, engine: Engine) -> bytes:
    """What a writer of version 1 stores."""
    return bytes(engine.encode(logical(element), element).payload)


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for element in ElementType:
        path = FOLDER / f"{element.name.lower()}.payload"
        if path.exists():
            sys.stderr.write(f"{path.name}: exists\n")
        else:
            path.write_bytes(payload(element, ReferenceEngine()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
