"""Segments and bytes to frames, however the bytes arrive. Source of the rules: docs/format.md, section 5."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile
from math import prod
from typing import Final

from .limits import FRAME_BYTES, MAX_COLUMNS, MAX_GAP_BYTES, MIN_COLUMNS, MIN_TENSOR_FRAME_BYTES, MIN_TYPED_BYTES
from .types import NO_GRID, Buffer, ElementType, Frame, Grid, Segment

# Below this a copy is cheaper than a slice that is kept.
_SMALL_BYTES: Final = 4 << 10


class FrameCutter:
    """Frames depend on the segments and the bytes only, not on how they were fed.

    Three runs are open at most: untyped bytes, and behind them a typed run that is too short so far to stand alone; and behind
    a typed run a gap of untyped bytes, which is part of it where it goes on.
    """

    def __init__(self) -> None:
        self._segments: deque[Segment] = deque()
        self._fed = 0
        self._start = 0
        self._untyped = _Pieces()
        self._typed = _Pieces()
        self._gap = _Pieces()
        self._element = ElementType.BYTES
        self._last: Segment | None = None  # with a type
        self._last_taken: Segment | None = None
        # Those that the next frame may lie in.
        self._open: deque[Segment] = deque()
        self._proved = False
        self._frames: list[Frame] = []

    def extend(self, segments: Iterable[Segment]) -> None:
        """Announce the next segments; they must cover bytes before these are fed."""
        self._segments.extend(segments)

    def feed(self, data: Buffer) -> list[Frame]:
        """Take the next bytes; return the frames that are now whole. data is kept until its frames are."""
        view = memoryview(data)
        while len(view):
            segment = self._segments[0]
            piece = view[: segment.end - self._fed]
            self._take(segment, piece)
            self._fed += len(piece)
            view = view[len(piece) :]
            if self._fed == segment.end:
                self._end_segment(segment)
                self._segments.popleft()
        return self._out()

    def finish(self) -> list[Frame]:
        """The body has ended, perhaps within a segment: return the last frames."""
        if self._proved:
            odd = self._typed.size % self._element.width
            tail = self._typed.cut_tail(odd)
            self._emit(self._element, self._typed)
            self._untyped.add(tail)
            self._give_up_gap()
        else:
            self._give_up_run()
        self._emit(ElementType.BYTES, self._untyped)
        return self._out()

    def _take(self, segment: Segment, piece: memoryview) -> None:
        if segment is not self._last_taken:
            self._last_taken = segment
            self._open.append(segment)
        if segment.element is ElementType.BYTES:
            self._take_untyped(piece)
            return
        if self._gap.size and self._goes_on(segment):
            self._take_typed(memoryview(self._gap.join()))
        elif self._gap.size or segment.element is not self._element:
            self._end_run()
        self._element = segment.element
        self._last = segment
        self._take_typed(piece)

    def _take_typed(self, piece: memoryview) -> None:
        if self._proved:
            self._add(self._element, self._typed, piece)
        else:
            self._prove(piece)

    def _take_untyped(self, piece: memoryview) -> None:
        is_short = self._last is not None and self._last.length < MIN_TYPED_BYTES
        if self._typed.size and is_short and self._gap.size + len(piece) <= MAX_GAP_BYTES:
            self._gap.add(piece)
            return
        self._end_run()
        self._add(ElementType.BYTES, self._untyped, piece)

    def _goes_on(self, segment: Segment) -> bool:
        """Whether a run goes on behind its gap: elements of one type, in step, and too few to stand alone."""
        return (
            segment.element is self._element
            and self._gap.size % segment.element.width == 0
            and segment.length < MIN_TYPED_BYTES
        )

    def _prove(self, piece: memoryview) -> None:
        """A typed run stands alone once it has MIN_TYPED_BYTES, gaps included; the bytes before it are then a frame."""
        missing = MIN_TYPED_BYTES - self._typed.size
        self._typed.add(piece[:missing])
        if self._typed.size == MIN_TYPED_BYTES:
            self._emit(ElementType.BYTES, self._untyped)
            self._proved = True
            self._add(self._element, self._typed, piece[missing:])

    def _end_segment(self, segment: Segment) -> None:
        if self._proved and self._typed.size >= MIN_TENSOR_FRAME_BYTES:
            self._emit(segment.element, self._typed)

    def _end_run(self) -> None:
        if self._proved:
            self._emit(self._element, self._typed)
            self._proved = False
            self._give_up_gap()
        else:
            self._give_up_run()
        self._element = ElementType.BYTES

    def _give_up_run(self) -> None:
        for piece in self._typed.take_all():
            self._add(ElementType.BYTES, self._untyped, piece)
        self._give_up_gap()

    def _give_up_gap(self) -> None:
        for piece in self._gap.take_all():
            self._add(ElementType.BYTES, self._untyped, piece)

    def _add(self, element: ElementType, run: _Pieces, piece: memoryview) -> None:
        while run.size + len(piece) >= FRAME_BYTES:
            room = FRAME_BYTES - run.size
            run.add(piece[:room])
            self._emit(element, run)
            piece = piece[room:]
        run.add(piece)

    def _emit(self, element: ElementType, run: _Pieces) -> None:
        if run.size:
            data = run.join()
            grid = self._grid(element, len(data))
            segments = self._segments_to(self._start + len(data))
            self._frames.append(Frame(self._start, element, data, grid, segments=segments))
            self._start += len(data)

    def _segments_to(self, end: int) -> tuple[Segment, ...]:
        """Those that the frame from _start to end lies in."""
        while self._open and self._open[0].end <= self._start:
            self._open.popleft()
        return tuple(takewhile(lambda segment: segment.start < end, self._open))

    def _grid(self, element: ElementType, length: int) -> Grid:
        """Rows and columns of a frame that lies in one tensor."""
        segment = self._last
        if not element.is_float or segment is None or segment.shape is None:
            return NO_GRID
        offset = self._start - segment.start
        if offset < 0 or self._start + length > segment.end or segment.length != prod(segment.shape) * element.width:
            return NO_GRID
        columns = columns_of(segment.shape)
        return Grid(columns, offset // element.width % columns) if columns else NO_GRID

    def _out(self) -> list[Frame]:
        frames, self._frames = self._frames, []
        return frames


def columns_of(shape: Sequence[int]) -> int:
    """The last dimension, times those before it while it is short; 0 for less than two dimensions, and past MAX_COLUMNS."""
    if len(shape) < 2 or 0 in shape:
        return 0
    columns = shape[-1]
    for size in reversed(shape[:-1]):
        if columns >= MIN_COLUMNS:
            break
        columns *= size
    return columns if columns <= MAX_COLUMNS else 0


class _Pieces:
    """Slices of what was fed, joined once; small ones are gathered as they come."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[memoryview | bytearray] = []

    def add(self, piece: memoryview) -> None:
        if len(piece) < _SMALL_BYTES:
            if not self._pieces or not isinstance(self._pieces[-1], bytearray):
                self._pieces.append(bytearray())
            self._pieces[-1] += piece  # type: ignore[operator]
        else:
            self._pieces.append(piece)
        self.size += len(piece)

    def take_all(self) -> list[memoryview]:
        pieces, self._pieces, self.size = self._pieces, [], 0
        return [memoryview(piece) for piece in pieces]

    def join(self) -> bytes | memoryview:
        """All of it; a view where it was one piece."""
        pieces = self.take_all()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def cut_tail(self, size: int) -> memoryview:
        data = self.join()
        self.add(memoryview(data)[: len(data) - size])
        return memoryview(data)[len(data) - size :]
