"""The codec on files: pack and unpack, streaming, in bounded memory, never half a file."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from s4weights.codec.bases import FRAMES_AHEAD
from s4weights.codec.container import HEADER_BYTES, TRAILER_BYTES, BaseBody, LogicalETag, check_header, read_bases
from s4weights.codec.decode import ReadBase, iter_body, read_tail
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import DeviceEngine, Engine
from s4weights.codec.errors import MissingBase
from s4weights.codec.limits import SNIFF_BYTES
from s4weights.codec.sniff import sniff
from s4weights.codec.types import Base, BaseRange, Buffer, EncodedFrame, Frame, Kind, Level
from s4weights.engine import open_callers_engine, open_engine

from .bodies import BaseFiles, named_faults
from .frame_bases import FrameBases

_CHUNK_BYTES: Final = 1 << 20
# A write that found no room: the error of the system names no file.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Progress = Callable[[int], None]
"""Called with the bytes of the source read since the last call."""


@dataclass(frozen=True, slots=True)
class Report:
    """What pack or unpack did. logical, stored: bytes of the body and of the container."""

    kind: str
    logical_bytes: int
    stored_bytes: int
    frames: int
    fallbacks: int
    seconds: float
    engine: str
    verified: bool = True
    bases: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """Logical by stored bytes."""
        return self.logical_bytes / self.stored_bytes if self.stored_bytes else 1.0


def pack_file(
    source: Path,
    target: Path,
    *,
    engine: Engine | None = None,
    level: Level = Level.BALANCED,
    threads: int = 0,
    bases: Sequence[Path] = (),
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Write source as a container. target appears when it is whole, and is neither source nor a base.

    bases: earlier bodies or their containers, which must be there when this one is unpacked, if it gains by them.
    Raises: OSError; FileExistsError; ConfigError where a base has MAX_CHAIN bodies behind it.
    """
    engine = engine or open_callers_engine()
    started_s = time.monotonic()
    md5 = hashlib.md5(usedforsecurity=False)
    with (
        source.open("rb") as reading,
        _new_file(target, source, force=force) as writing,
        closing(FrameBases.of_files(source, bases, engine)) as near,
    ):
        encoder = Encoder(bases=[body.about for body in near.others])
        chunks = _chunks(reading, md5.update, progress)
        writing.write(encoder.start())
        for frame in encode_all(encoder, chunks, engine, level=level, threads=threads, bases=near):
            writing.write(frame.header)
            writing.write(frame.payload)
        writing.write(encoder.finish(etag=LogicalETag(md5.digest())))
        stored_bytes = writing.tell()
        _check_target(target, near.paths)
    totals = encoder.totals
    return Report(
        kind=(encoder.kind or Kind.UNKNOWN).value,
        logical_bytes=totals.logical_bytes,
        stored_bytes=stored_bytes,
        frames=totals.frames,
        fallbacks=totals.fallbacks,
        seconds=time.monotonic() - started_s,
        engine=engine.name,
        bases=tuple(base.key for base in encoder.bases),
    )


def unpack_file(
    source: Path,
    target: Path,
    *,
    engine: Engine | None = None,
    bases: Sequence[Path] = (),
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Write the body of a container; every hash of it is checked. target appears when it is whole, and is never source.

    bases: where the bodies that it needs may be, besides their own names beside source.
    Raises: FormatError where source is no whole container; MissingBase; OSError, FileExistsError.
    """
    engine = engine or open_engine(one_by_one=True)
    started_s = time.monotonic()
    frames = at = 0
    with (
        source.open("rb") as reading,
        _new_file(target, source, force=force) as writing,
        closing(BaseFiles(bases, engine)) as others,
    ):
        known = read_base_list(reading, str(source))

        def read_base(needed: BaseRange) -> bytes:
            if needed.reference.number:
                return others.read(known, needed, source)
            writing.flush()
            return os.pread(writing.fileno(), needed.length, needed.reference.start)

        for body in iter_body(reading, engine, where=str(source), read_base=read_base):
            writing.write(body)
            frames += 1
            if progress is not None:
                progress(reading.tell() - at)
            at = reading.tell()
        logical_bytes = writing.tell()
        _check_target(target, others.paths)
    return Report(
        kind="container",
        logical_bytes=logical_bytes,
        stored_bytes=source.stat().st_size,
        frames=frames,
        fallbacks=0,
        seconds=time.monotonic() - started_s,
        engine=engine.name,
        bases=tuple(base.key for base in known),
    )


def restore_file(
    reading: BinaryIO,
    target: Path,
    *,
    name: str,
    as_it_is: bool = False,
    read_base: ReadBase | None = None,
    engine: Engine | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Write the body where reading starts with a container, else the very bytes. target appears when it is whole.

    name: of what is read, for messages. as_it_is: also a container stays one. read_base: gives the bytes of other bodies.
    Raises: FormatError where a container is damaged; OSError, FileExistsError.
    """
    engine = engine or open_engine(one_by_one=True)
    started_s = time.monotonic()
    head = b"" if as_it_is else reading.read(SNIFF_BYTES)
    is_container = sniff(head, complete=True) is Kind.CONTAINER
    source = _Counted(head, reading, progress)
    written = frames = 0
    with _new_file(target, None, force=force) as writing:

        def read_any(needed: BaseRange) -> Buffer:
            if needed.reference.number:
                if read_base is None:
                    raise MissingBase(f"{name}: expected {needed}, found no bases at all")
                return read_base(needed)
            writing.flush()
            return os.pread(writing.fileno(), needed.length, needed.reference.start)

        pieces = iter_body(source, engine, where=name, read_base=read_any) if is_container else source.chunks()
        for piece in pieces:
            writing.write(piece)
            written += len(piece)
            frames += is_container
    return Report(
        kind="container" if is_container else "copied",
        logical_bytes=written,
        stored_bytes=source.read_bytes,
        frames=frames,
        fallbacks=0,
        seconds=time.monotonic() - started_s,
        engine=engine.name if is_container else "none",
        verified=is_container,
    )


class _Counted:
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, rest: BinaryIO, progress: Progress | None) -> None:
        self.read_bytes = 0
        self._head = head
        self._rest = rest
        self._progress = progress

    def read(self, size: int, /) -> bytes:
        data = self._head[:size] or self._rest.read(size)
        self._head = self._head[size:]
        self.read_bytes += len(data)
        if self._progress is not None:
            self._progress(len(data))
        return data

    def chunks(self) -> Iterator[bytes]:
        while chunk := self.read(_CHUNK_BYTES):
            yield chunk


def encode_all(
    encoder: Encoder,
    chunks: Iterator[bytes],
    engine: Engine,
    *,
    level: Level = Level.BALANCED,
    threads: int = 0,
    bases: FrameBases | None = None,
) -> Iterator[EncodedFrame]:
    """Encode a body with several threads; frames come in order and are added to the encoder already."""
    threads = threads or os.cpu_count() or 1
    if isinstance(engine, DeviceEngine):
        # Each waits for its frame; the work is the device's.
        threads = max(threads, min(engine.frames_at_once, FRAMES_AHEAD - 1))
    most_ahead = min(2 * threads, FRAMES_AHEAD - 1)

    def encode(frame: Frame, offers: Sequence[BaseRange]) -> EncodedFrame:
        if offers and bases is not None:
            frame = replace(frame, bases=tuple(Base(one.reference, one.kind, bases.read(one)) for one in offers))
        return encode_frame(frame, engine, level)

    def added(frame: EncodedFrame) -> EncodedFrame:
        encoder.add(frame)
        if bases is not None:
            bases.planner.added(frame)
        return frame

    def planned() -> Iterator[Frame]:
        for chunk in chunks:
            yield from encoder.plan(chunk)
        yield from encoder.plan_end()

    with ThreadPoolExecutor(threads, thread_name_prefix="pack") as pool:
        ahead: deque[Future[EncodedFrame]] = deque()
        for frame in planned():
            offers = bases.planner.offers(frame) if bases is not None else ()
            ahead.append(pool.submit(encode, frame, offers))
            if len(ahead) > most_ahead:
                yield added(ahead.popleft().result())
        while ahead:
            yield added(ahead.popleft().result())


def read_base_list(source: BinaryIO, name: str) -> tuple[BaseBody, ...]:
    """Those that a container's index names, before its frames are read from the start. Raises: FormatError."""
    with named_faults(name):
        check_header(source.read(HEADER_BYTES))
        size = source.seek(0, os.SEEK_END)
        source.seek(max(0, size - TRAILER_BYTES))
        trailer = read_tail(source.read(), object_bytes=size).trailer
        source.seek(trailer.index_offset)
        index = read_tail(source.read(), object_bytes=size).index
    source.seek(0)
    return read_bases(index.about) if index is not None else ()


def _check_target(target: Path, bases: Sequence[Path]) -> None:
    for base in bases:
        if target.exists() and target.samefile(base):
            raise FileExistsError(f"{target} is needed to unpack the source: say where else to write")


def _chunks(source: BinaryIO, hash_update: Callable[[bytes], object], progress: Progress | None) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK_BYTES):
        hash_update(chunk)
        if progress is not None:
            progress(len(chunk))
        yield chunk


@contextmanager
def _new_file(target: Path, source: Path | None, *, force: bool) -> Iterator[BinaryIO]:
    """A file that is at target when the block ends well, durable and whole, and nowhere when it does not."""
    if source is not None and target.exists() and target.samefile(source):
        raise FileExistsError(f"{target} is the source itself: say where else to write")
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists: use --force to replace it")
    with whole_file(target) as file:
        yield file


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """A file that replaces target when the block ends well, durable and whole; otherwise target stays as it was.

    What a link points to is replaced, with the mode that it has; what is no file (a pipe, a device) is written to as it is.
    Raises: OSError that names target, never the file that is to become it.
    """
    named, target = target, target.resolve()
    known = target.stat() if target.exists() else None
    if known is not None and not stat.S_ISREG(known.st_mode):
        with target.open("wb") as file:
            yield file
        return
    try:
        fd, name = tempfile.mkstemp(dir=target.parent, prefix=".s4weights.")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(named)) from None
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_new_mode() if known is None else stat.S_IMODE(known.st_mode))
        temporary.replace(target)
        _sync_folder(target.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            error.filename = str(named)
        raise


def _new_mode() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _sync_folder(folder: Path) -> None:
    # The name is durable only when its folder is.
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
