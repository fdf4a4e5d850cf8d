"""Where frames are cut: docs/format.md, section 5."""

from __future__ import annotations

from collections import deque

import pytest

from s4weights.codec.frames import FrameCutter
from s4weights.codec.limits import FRAME_BYTES, MAX_GAP_BYTES, MIN_TENSOR_FRAME_BYTES, MIN_TYPED_BYTES
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


SHORT = ("F32", MIN_TYPED_BYTES - 4)
GAP = ("BYTES", MAX_GAP_BYTES)


@pytest.mark.parametrize(
    ("runs", "frames"),
    [
        ([SHORT, GAP, SHORT, ("BYTES", 1)], [("F32", 2 * SHORT[1] + GAP[1]), ("BYTES", 1)]),
        ([("BYTES", 100), *[("F32", KIB), GAP] * 4], [("BYTES", 100), ("F32", 4 * KIB + 3 * GAP[1]), GAP]),
        ([*[("F32", KIB), GAP] * 7], [("F32", 7 * KIB + 6 * GAP[1]), GAP]),
        ([*[("F32", KIB), GAP] * 3], [("BYTES", 3 * (KIB + GAP[1]))]),
        ([SHORT, ("BYTES", MAX_GAP_BYTES + 4), SHORT], [("BYTES", 2 * SHORT[1] + MAX_GAP_BYTES + 4)]),
        ([SHORT, ("BYTES", 6), SHORT], [("BYTES", 2 * SHORT[1] + 6)]),
        ([SHORT, GAP, ("I32", SHORT[1])], [("BYTES", 2 * SHORT[1] + GAP[1])]),
        ([SHORT, GAP, ("F32", 4 * KIB)], [("BYTES", SHORT[1] + GAP[1]), ("F32", 4 * KIB)]),
        ([("F32", 4 * KIB), GAP, SHORT], [("F32", 4 * KIB), ("BYTES", GAP[1] + SHORT[1])]),
    ],
    ids=[
        "two",
        "four",
        "seven",
        "not enough",
        "too far",
        "out of step",
        "another type",
        "long enough",
        "behind a long one",
    ],
)
def test_short_runs_of_one_type_go_on_behind_a_few_bytes(runs, frames):
    assert cut(*runs) == frames


def test_gaps_are_the_same_however_the_bytes_arrive():
    """Untyped segments end where what was fed ends; typed ones do not."""
    body = bytes(range(251)) * 80
    typed = [Segment(start, 900, ElementType.F32) for start in range(100, 18_000, 908)]

    def fed_by(size: int) -> list[tuple[int, ElementType, bytes]]:
        cutter, frames, covered, waiting = FrameCutter(), [], 0, deque(typed)
        for at in range(0, len(body), size):
            piece, segments = body[at : at + size], []
            while covered < at + len(piece):
                if waiting and waiting[0].start == covered:
                    segments.append(waiting.popleft())
                else:
                    end = min(at + len(piece), waiting[0].start if waiting else len(body))
                    segments.append(Segment(covered, end - covered))
                covered = segments[-1].end
            cutter.extend(segments)
            frames += cutter.feed(piece)
        frames += cutter.finish()
        return [(frame.start, frame.element, bytes(frame.data)) for frame in frames]

    whole = fed_by(len(body))
    assert [element.name for _, element, _ in whole] == ["BYTES", "F32", "BYTES"]
    for size in (1, 3, 7, 100, 905, 4_096):
        assert fed_by(size) == whole


def test_a_body_that_ends_within_an_element():
    assert cut(("F32", 100 * KIB), ends_at=50 * KIB + 3) == [("F32", 50 * KIB), ("BYTES", 3)]


def test_a_body_that_ends_within_a_short_run():
    assert cut(("BYTES", 10), ("F32", 100 * KIB), ends_at=1_000) == [("BYTES", 1_000)]
