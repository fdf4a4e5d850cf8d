"""Where frames are cut: docs/format.md, section 5."""

from __future__ import annotations

import pytest

from s4weights.codec.frames import FrameCutter
from s4weights.codec.limits import FRAME_BYTES, MIN_TENSOR_FRAME_BYTES, MIN_TYPED_BYTES
from s4weights.codec.types import ElementType, Segment

KIB = 1024


def cut(*runs: tuple[str, int], ends_at: int | None = None) -> list[tuple[str, int]]:
    """Frames of segments (type, bytes) that follow each other."""
    segments, start = [], 0
    for element, size in runs:
        segments.append(Segment(start, size, ElementType[element]))
        start += size
    body = bytes(number % 251 for number in range(start if ends_at is None else ends_at))
    cutter = FrameCutter()
    cutter.extend(segments)
    frames = cutter.feed(body) + cutter.finish()
    assert b"".join(bytes(frame.data) for frame in frames) == body
    assert [frame.start for frame in frames] == [
        sum(len(before.data) for before in frames[:number]) for number in range(len(frames))
    ]
    return [(frame.element.name, len(frame.data)) for frame in frames]


@pytest.mark.parametrize(
    ("runs", "frames"),
    [
        ([("BYTES", 100)], [("BYTES", 100)]),
        ([("BYTES", 100), ("F32", MIN_TYPED_BYTES)], [("BYTES", 100), ("F32", MIN_TYPED_BYTES)]),
        ([("BYTES", 100), ("F32", MIN_TYPED_BYTES - 4), ("BYTES", 10)], [("BYTES", 100 + MIN_TYPED_BYTES - 4 + 10)]),
        ([("F32", 2 * KIB), ("F32", 2 * KIB)], [("F32", 4 * KIB)]),
        ([("F32", 2 * KIB), ("BF16", 8 * KIB)], [("BYTES", 2 * KIB), ("BF16", 8 * KIB)]),
        ([("BF16", 8 * KIB), ("F32", 8 * KIB)], [("BF16", 8 * KIB), ("F32", 8 * KIB)]),
        ([("F32", MIN_TENSOR_FRAME_BYTES), ("F32", 8 * KIB)], [("F32", MIN_TENSOR_FRAME_BYTES), ("F32", 8 * KIB)]),
        ([("F32", MIN_TENSOR_FRAME_BYTES - 4), ("F32", 8 * KIB)], [("F32", MIN_TENSOR_FRAME_BYTES - 4 + 8 * KIB)]),
        ([("F32", FRAME_BYTES + 100), ("BYTES", 1)], [("F32", FRAME_BYTES), ("F32", 100), ("BYTES", 1)]),
        ([("BYTES", FRAME_BYTES + 1)], [("BYTES", FRAME_BYTES), ("BYTES", 1)]),
    ],
)
def test_rules(runs, frames):
    assert cut(*runs) == frames


def test_a_body_that_ends_within_an_element():
    assert cut(("F32", 100 * KIB), ends_at=50 * KIB + 3) == [("F32", 50 * KIB), ("BYTES", 3)]


def test_a_body_that_ends_within_a_short_run():
    assert cut(("BYTES", 10), ("F32", 100 * KIB), ends_at=1_000) == [("BYTES", 1_000)]
