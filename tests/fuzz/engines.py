"""Hostile payloads: the native engine and the reference give the same frame, or both a FormatError.

An input is one of fuzz_payload.cpp, so that the seeds and finds of one serve the other.
"""

from __future__ import annotations

from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.engines.interface import Engine
from s4weights.codec.errors import FormatError
from s4weights.codec.types import Layout, Predictor

from . import seeds as kernel_seeds

_MAX_ELEMENTS = 2 * kernel_seeds.BLOCK + 1_000
_HEAD_BYTES = 5


def one(data: bytes) -> None:
    """data: see fuzz_payload.cpp."""
    if len(data) < _HEAD_BYTES:
        return
    element = kernel_seeds.ELEMENTS[data[0] % len(kernel_seeds.ELEMENTS)]
    choices = data[1] if element.is_float else 0
    layout = Layout(2 + choices % 4) if element.is_float else Layout.PLANES
    predictor = Predictor.LEVELS if choices & 0x80 else Predictor.NONE
    n = 1 + int.from_bytes(data[2:_HEAD_BYTES], "little") % _MAX_ELEMENTS

    def decode(engine: Engine) -> bytes | None:
        try:
            return engine.decode(data[_HEAD_BYTES:], element, predictor, layout, element.width, n * element.width)
        except FormatError:
            return None

    assert decode(NativeEngine()) == decode(ReferenceEngine())


def seeds() -> list[bytes]:
    """Payloads of fewer bytes than a block."""
    return [seed for name, seed in kernel_seeds.payload_seeds() if "blocks" not in name]
