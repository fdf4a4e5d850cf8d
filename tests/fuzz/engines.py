"""Hostile payloads: the native engine and the reference give the same frame, or both a FormatError.

An input is one of fuzz_payload.cpp, so that the seeds and finds of one serve the other.
"""

from __future__ import annotations

from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.engines.interface import Engine
from s4weights.codec.errors import FormatError
from s4weights.codec.types import ElementType, Layout, Predictor

from . import seeds as kernel_seeds

_MAX_ELEMENTS = 2 * kernel_seeds.BLOCK + 1_000
_HEAD_BYTES = 5


def one(data: bytes) -> None:
    """data: see fuzz_payload.cpp."""
    if len(data) < _HEAD_BYTES:
        return
    element = kernel_seeds.ELEMENTS[data[0] % len(kernel_seeds.ELEMENTS)]
    n = 1 + int.from_bytes(data[2:_HEAD_BYTES], "little") % _MAX_ELEMENTS
    predictor, layout = _predictor(element, data[1] >> 5), Layout.PLANES
    if element.is_float:
        rotated = Layout.ROTATED_1 if predictor in (Predictor.XOR, Predictor.NARROWED) else Layout.PLANES
        layout = rotated if predictor.needs_base else Layout(2 + data[1] % 4)
    payload = data[_HEAD_BYTES:]
    base = None
    if predictor.needs_base:
        base = kernel_seeds.made_base(predictor.base_kind.base_bytes(n * element.width), payload)

    def decode(engine: Engine) -> bytes | None:
        try:
            return engine.decode(payload, element, predictor, layout, element.width, n * element.width, base)
        except FormatError:
            return None

    assert decode(NativeEngine()) == decode(ReferenceEngine())


def _predictor(element: ElementType, chosen: int) -> Predictor:
    predictor = kernel_seeds.PREDICTORS.get(chosen, Predictor.NONE)
    return predictor if predictor.fits(element) else Predictor.NONE


def seeds() -> list[bytes]:
    """Payloads of fewer bytes than a block."""
    return [seed for name, seed in kernel_seeds.payload_seeds() if "blocks" not in name]
