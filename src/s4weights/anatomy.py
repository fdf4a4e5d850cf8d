"""What a container, or a checkpoint that could become one, is made of: bytes and modes a tensor."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from s4weights.codec.container import (
    FRAME_HEADER_BYTES,
    HEADER_BYTES,
    TRAILER_BYTES,
    BaseBody,
    FrameHeader,
    FrameSpan,
    check_header,
    parse_reference,
    read_bases,
)
from s4weights.codec.decode import read_tail
from s4weights.codec.encode import Encoder
from s4weights.codec.engines import Engine
from s4weights.codec.engines.payload import stored_modes
from s4weights.codec.errors import FormatError
from s4weights.codec.types import ElementType, Layout, Mode, Predictor, Reference
from s4weights.engine import open_engine
from s4weights.files import Progress, encode_all
from s4weights.frame_bases import FrameBases

from .bodies import named_faults

_CHUNK_BYTES = 1 << 20


@dataclass(slots=True)
class Row:
    """One tensor, or one run of bytes without a type (name None). stored: its share of the frames it lies in.

    predictors: of its frames. bases: what they are predicted from, 0 the body itself.
    """

    name: str | None
    element: str
    shape: list[int] | None
    logical_bytes: int
    stored_bytes: float = 0.0
    modes: set[str] = field(default_factory=set)
    predictors: set[str] = field(default_factory=set)
    bases: set[int] = field(default_factory=set)

    @property
    def ratio(self) -> float:
        """Logical by stored bytes."""
        return self.logical_bytes / self.stored_bytes if self.stored_bytes else 1.0


@dataclass(frozen=True, slots=True)
class Anatomy:
    """is_container: whether the file is one already; otherwise the rows say what it would be.

    engine: what encoded and verified the frames; None for a container, whose frames are not decoded here.
    """

    kind: str
    is_container: bool
    logical_bytes: int
    stored_bytes: int
    rows: list[Row]
    seconds: float
    engine: str | None = None
    bases: tuple[BaseBody, ...] = ()


@dataclass(frozen=True, slots=True)
class _FrameFacts:
    start: int
    end: int
    stored_bytes: int
    modes: tuple[Mode, ...]
    predictor: Predictor
    base: Reference | None

    @property
    def how(self) -> str:
        """The predictor first, with the number of the base; then the planes from the highest on."""
        names = [mode.name.lower() for mode in reversed(self.modes)]
        if self.base is not None:
            what = "copy" if not names and self.predictor is Predictor.XOR else self.predictor.name.lower()
            return "+".join([f"{what}({self.base.number})", *names])
        if self.predictor is not Predictor.NONE:
            names.insert(0, self.predictor.name.lower())
        return "+".join(names) or "raw"


def inspect_file(path: Path, *, engine: Engine | None = None, progress: Progress = lambda _: None) -> Anatomy:
    """Take a file apart. Raises: FormatError where it is a damaged container; OSError."""
    started_s = time.monotonic()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            check_header(file.read(HEADER_BYTES))
        except FormatError:
            file.seek(0)
            return _foresee(path, file, engine or open_engine(one_by_one=True), progress, started_s)
        with named_faults(str(path)):
            return _dissect(file, size, progress, started_s)


def _dissect(file: BinaryIO, size: int, progress: Progress, started_s: float) -> Anatomy:
    file.seek(max(0, size - TRAILER_BYTES))
    trailer = read_tail(file.read(), object_bytes=size).trailer
    file.seek(trailer.index_offset)
    tail = read_tail(file.read(), object_bytes=size)
    if tail.index is None:
        raise FormatError(f"index: expected it at stored byte {trailer.index_offset}, found nothing")
    facts = []
    for span in tail.index.spans():
        facts.append(_read_facts(file, span))
        progress(span.stored_bytes)
    about = tail.index.about
    return Anatomy(
        str(about.get("kind", "unknown")),
        True,
        trailer.logical_bytes,
        size,
        _rows(_checked_segments(about.get("segments", [])), facts, cut=bool(about.get("segments_cut"))),
        time.monotonic() - started_s,
        bases=read_bases(about),
    )


def _checked_segments(segments: Any) -> list[list[Any]]:
    """The index's table, which nothing that decodes has looked at. Raises: FormatError."""
    end = 0
    for number, row in enumerate(segments if isinstance(segments, list) else [segments]):
        match row:
            case [int(start), int(length), str(), None | str(), None | list()] if start >= end and length >= 0:
                end = start + length
            case _:
                raise FormatError(
                    f"index: segment {number}: expected [start, length, type, name, shape] from byte {end} on, "
                    f"found {row!r:.100}"
                )
    return list(segments)


def _read_facts(file: BinaryIO, span: FrameSpan) -> _FrameFacts:
    file.seek(span.stored_start)
    stored = file.read(span.stored_bytes)
    header = FrameHeader.parse(stored, where=f"frame {span.number} at stored byte {span.stored_start}")
    payload = stored[FRAME_HEADER_BYTES:]
    is_raw = header.layout is Layout.RAW
    modes = () if is_raw else stored_modes(payload, header.predictor, header.planes)
    base = parse_reference(payload) if header.predictor.needs_base else None
    return _FrameFacts(span.start, span.end, span.stored_bytes, modes, header.predictor, base)


def _foresee(path: Path, file: BinaryIO, engine: Engine, progress: Progress, started_s: float) -> Anatomy:
    encoder = Encoder()
    facts = []

    def chunks() -> Iterator[bytes]:
        while chunk := file.read(_CHUNK_BYTES):
            progress(len(chunk))
            yield chunk

    with closing(FrameBases.of_files(path, (), engine)) as bases:
        for frame in encode_all(encoder, chunks(), engine, bases=bases):
            end = frame.start + frame.logical_bytes
            facts.append(_FrameFacts(frame.start, end, frame.stored_bytes, frame.modes, frame.predictor, frame.base))
    tail = encoder.finish()
    stored = HEADER_BYTES + encoder.totals.stored_bytes + len(tail)
    kind = encoder.kind.value if encoder.kind else "unknown"
    return Anatomy(
        kind,
        False,
        encoder.totals.logical_bytes,
        stored,
        _rows(encoder.segments, facts, cut=encoder.segments_cut),
        time.monotonic() - started_s,
        engine.name,
    )


def _tiled(segments: list[list[Any]], body_bytes: int, *, cut: bool) -> Iterator[list[Any]]:
    """The table's rows, and one for each run of bytes between them. cut: nothing is known of what lies behind the last."""
    end = 0
    for row in segments:
        if row[0] > end:
            yield [end, row[0] - end, ElementType.BYTES.name, None, None]
        yield row
        end = row[0] + row[1]
    if end < body_bytes and not cut:
        yield [end, body_bytes - end, ElementType.BYTES.name, None, None]


def _rows(segments: list[list[Any]], facts: list[_FrameFacts], *, cut: bool) -> list[Row]:
    """Share every frame's stored bytes among the segments that it holds, by their bytes in it."""
    rows: list[Row] = []
    at = 0
    for start, length, element, name, shape in _tiled(segments, facts[-1].end if facts else 0, cut=cut):
        row = Row(name, str(element), shape, length)
        end = start + length
        while at < len(facts) and facts[at].end <= start:
            at += 1
        number = at
        while number < len(facts) and facts[number].start < end:
            fact = facts[number]
            shared = min(end, fact.end) - max(start, fact.start)
            row.stored_bytes += fact.stored_bytes * shared / (fact.end - fact.start)
            row.modes.add(fact.how)
            row.predictors.add(fact.predictor.name.lower())
            if fact.base is not None:
                row.bases.add(fact.base.number)
            number += 1
        rows.append(row)
    return rows


def untyped(row: Row) -> bool:
    """Whether a row is bytes without a type."""
    return row.element == ElementType.BYTES.name
