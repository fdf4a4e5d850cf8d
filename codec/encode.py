"""Body in, container out, front to back: sniff -> segments -> frames -> engine (planes, entropy) -> container.

The caller moves the work: `plan` and `add` are cheap and keep order; `encode_frame` is the heavy step, has no state
and may run in any thread.

    encoder = Encoder()
    out.write(encoder.start())
    for chunk in body:
        for frame in encoder.plan(chunk):
            out.writelines(encoder.add(encode_frame(frame, engine)))
    for frame in encoder.plan_end():
        out.writelines(encoder.add(encode_frame(frame, engine)))
    out.write(encoder.finish())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import xxhash

from s4weights.version import __version__

from ._native import crc32c
from .container import (
    HEADER_BYTES,
    TRAILER_BYTES,
    BaseBody,
    FrameHeader,
    LogicalETag,
    Trailer,
    make_header,
    make_index,
    pack_reference,
)
from .engines import EncodedPayload, Engine
from .engines.payload import raw_payload
from .errors import FormatError, S4WeightsError
from .frames import FrameCutter
from .limits import MAX_INDEX_SEGMENTS
from .segments import Segmenter, open_segmenter
from .sniff import sniff
from .types import Base, Buffer, ElementType, EncodedFrame, Frame, Kind, Layout, Level, Segment

WRITER: Final = f"s4weights {__version__}"


@dataclass(slots=True)
class Totals:
    """What an encoder has seen. logical, stored: bytes of the frames added so far, headers included in stored."""

    frames: int = 0
    logical_bytes: int = 0
    stored_bytes: int = 0
    fallbacks: int = 0


class Encoder:
    """The state of one body on its way into a container. Not thread-safe."""

    def __init__(self, *, kind: Kind | None = None, bases: Sequence[BaseBody] = ()) -> None:
        """bases: those that frames may refer to, by their numbers from 1 on; only where one does are they written."""
        self.kind = kind
        self._bases = tuple(bases)
        self._needs_bases = False
        self.totals = Totals()
        self._head = bytearray()
        self._segmenter: Segmenter | None = None
        self._cutter = FrameCutter()
        self._digest = xxhash.xxh3_128()
        self._table = _SegmentTable()
        self._logical_lengths: list[int] = []
        self._stored_lengths: list[int] = []
        if kind is not None:
            self._segmenter = open_segmenter(kind)

    @property
    def segments(self) -> list[list[Any]]:
        """Rows of the segment table, as in the index: start, length, element type, name, shape."""
        return self._table.rows

    @property
    def bases(self) -> tuple[BaseBody, ...]:
        """Those that must be there when the container is read."""
        return self._bases if self._needs_bases else ()

    @property
    def digest(self) -> bytes:
        """XXH3-128 of what was planned so far."""
        return self._digest.digest()

    @property
    def segments_cut(self) -> bool:
        """Whether there were more rows than a table keeps."""
        return self._table.cut

    def plan(self, data: Buffer) -> list[Frame]:
        """Take the next bytes of the body; return the frames that are now whole."""
        self._digest.update(data)
        if self._segmenter is not None:
            return self._cut(data)
        if not self._head:
            return self._begin(data, complete=False)
        self._head += data
        return self._begin(self._head, complete=False)

    def plan_end(self) -> list[Frame]:
        """The body has ended: return the last frames."""
        frames = self._begin(self._head, complete=True) if self._segmenter is None else []
        return frames + self._cutter.finish()

    def start(self) -> bytes:
        """Return the container's first bytes."""
        return make_header()

    def add(self, frame: EncodedFrame) -> tuple[Buffer, Buffer]:
        """Take the next frame in order; return its stored bytes, in two pieces."""
        expected = self.totals.logical_bytes
        if frame.start != expected:
            raise S4WeightsError(f"encoder: expected the frame at logical byte {expected}, found {frame.start}")
        if frame.base is not None and frame.base.number:
            if frame.base.number > len(self._bases):
                raise S4WeightsError(f"encoder: expected at most {len(self._bases)} bases, found {frame.base}")
            self._needs_bases = True
        self.totals.frames += 1
        self.totals.logical_bytes += frame.logical_bytes
        self.totals.stored_bytes += frame.stored_bytes
        self.totals.fallbacks += frame.fell_back
        self._logical_lengths.append(frame.logical_bytes)
        self._stored_lengths.append(frame.stored_bytes)
        return frame.header, frame.payload

    def finish(
        self,
        *,
        etag: LogicalETag | None = None,
        parts: Sequence[int] = (),
        checksums: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return index and trailer. parts: sizes of the client's parts. checksums: its whole-object ones by header.

        more: other members of the index.
        """
        self._table.end(self.totals.logical_bytes)
        about: dict[str, Any] = {
            "writer": WRITER,
            "kind": (self.kind or Kind.UNKNOWN).value,
            **self._table.members(),
            **(more or {}),
        }
        if self.bases:
            about["bases"] = [base.member() for base in self.bases]
        if parts:
            about["parts"] = list(parts)
        if checksums:
            about["checksums"] = dict(checksums)
        index = make_index(self._logical_lengths, self._stored_lengths, about)
        index_offset = HEADER_BYTES + self.totals.stored_bytes
        trailer = Trailer(
            logical_bytes=self.totals.logical_bytes,
            stored_bytes=index_offset + len(index) + TRAILER_BYTES,
            index_offset=index_offset,
            index_bytes=len(index),
            frames=self.totals.frames,
            digest=self.digest,
            etag=etag,
        )
        return index + trailer.to_bytes()

    def _begin(self, head: Buffer, *, complete: bool) -> list[Frame]:
        """Cut head, all that there is of the body, where its kind can be seen; else keep it."""
        kind = sniff(head, complete=complete)
        if kind is None:
            if head is not self._head:
                self._head += head
            return []
        self.kind = kind
        self._segmenter = open_segmenter(kind)
        if head is self._head:
            head, self._head = bytes(head), bytearray()
        return self._cut(head)

    def _cut(self, data: Buffer) -> list[Frame]:
        assert self._segmenter is not None
        segments = self._segmenter.feed(memoryview(data))
        self._table.extend(segments)
        self._cutter.extend(segments)
        return self._cutter.feed(data)


def encode_frame(frame: Frame, engine: Engine, level: Level = Level.BALANCED, *, verify: bool = True) -> EncodedFrame:
    """Encode one frame, decode it again and compare; what does not come back is stored raw. Thread-safe.

    verify: False only to measure what the comparison costs.
    """
    coded = engine.encode(frame.data, frame.element, grid=frame.grid, level=level, bases=frame.bases)
    base = None if coded.base is None else frame.bases[coded.base]
    has_raw_bytes = coded.layout is Layout.RAW and base is None
    fell_back = verify and not has_raw_bytes and not _comes_back(coded, frame, engine, base)
    if fell_back:
        coded, base = raw_payload(frame.data, frame.element), None
    payload = coded.payload if base is None else pack_reference(base.reference) + bytes(coded.payload)
    if has_raw_bytes or fell_back:
        payload = bytes(payload)  # a view would keep all that it was cut from
    header = FrameHeader(
        element=coded.element,
        predictor=coded.predictor,
        layout=coded.layout,
        planes=coded.planes,
        start=frame.start,
        logical_bytes=len(frame.data),
        payload_bytes=len(payload),
        digest=xxhash.xxh3_64_intdigest(frame.data),
        payload_crc=crc32c(payload),
    )
    return EncodedFrame(
        start=frame.start,
        element=coded.element,
        logical_bytes=len(frame.data),
        header=header.to_bytes(),
        payload=payload,
        modes=coded.modes,
        predictor=coded.predictor,
        fell_back=fell_back,
        base=None if base is None else base.reference,
    )


def _comes_back(coded: EncodedPayload, frame: Frame, engine: Engine, base: Base | None) -> bool:
    if coded.stored_bytes >= len(frame.data):
        return False
    try:
        return engine.decodes_to(coded, frame.data, None if base is None else base.data)
    except FormatError:
        return False


class _SegmentTable:
    """The rows of the index's segment table; what comes in several segments is one row, what has no type and name none."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._end = 0  # of the last row
        self.cut = False

    def extend(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            if segment.element is ElementType.BYTES and segment.name is None:
                continue
            row = [segment.element.name, segment.name, None if segment.shape is None else list(segment.shape)]
            # A run whose length nobody knew comes in blocks, which have no shape.
            if segment.shape is None and segment.start == self._end and self.rows[-1:] and self.rows[-1][2:] == row:
                self.rows[-1][1] += segment.length
            elif len(self.rows) >= MAX_INDEX_SEGMENTS:
                self.cut = True
            else:
                self.rows.append([segment.start, segment.length, *row])
            if not self.cut:
                self._end = segment.end

    def end(self, body_bytes: int) -> None:
        """The body may have ended within the last segment."""
        if self._end > body_bytes:
            self.rows[-1][1] = body_bytes - self.rows[-1][0]
            self.rows[-1][4] = None

    def members(self) -> dict[str, Any]:
        return {"segments": self.rows, "segments_cut": True} if self.cut else {"segments": self.rows}
