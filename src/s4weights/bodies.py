"""Bodies in files, read at random: the file itself, or what a container was made of, with the bases that it needs."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Any, BinaryIO, Final, Protocol

import xxhash

from s4weights.codec.container import (
    HEADER_BYTES,
    TRAILER_BYTES,
    BaseBody,
    FrameSpan,
    check_header,
    depth_on,
    read_bases,
)
from s4weights.codec.decode import check_reference, decode_frame, read_reference, read_tail, refers_to_itself
from s4weights.codec.encode import Encoder
from s4weights.codec.engines import Engine
from s4weights.codec.errors import FormatError, MissingBase, S4WeightsError
from s4weights.codec.types import BaseRange

SUFFIX: Final = ".s4w"
_CHUNK_BYTES: Final = 1 << 20
# Decoded frames of one container that are kept: those of a range are seldom read once only.
_KEPT_BYTES: Final = 32 << 20


class Body(Protocol):
    """Thread-safe."""

    @property
    def about(self) -> BaseBody:
        """What a container that needs this body says of it."""
        ...

    @property
    def rows(self) -> Any:
        """`segments` as in an index, unchecked."""
        ...

    def read(self, start: int, length: int) -> bytes:
        """Bytes that lie in the body. Raises: FormatError, OSError."""
        ...

    def close(self) -> None:
        """Raises: S4WeightsError where what was read may not have been one body."""
        ...


class PlainBody:
    """A file as it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb")
        self._stat = _stat(self._file)

    @property
    def size(self) -> int:
        """In bytes, when it was opened."""
        return self._stat[0]

    @cached_property
    def about(self) -> BaseBody:
        """See Body. Reads the whole file."""
        digest = xxhash.xxh3_128()
        for at in range(0, self.size, _CHUNK_BYTES):
            digest.update(os.pread(self._file.fileno(), _CHUNK_BYTES, at))
        return BaseBody(self.path.name, self.size, digest.digest())

    @property
    def rows(self) -> Any:
        """See Body. Reads the whole file."""
        encoder = Encoder()
        for at in range(0, self.size, _CHUNK_BYTES):
            encoder.plan(os.pread(self._file.fileno(), _CHUNK_BYTES, at))
        encoder.plan_end()
        return encoder.segments

    def read(self, start: int, length: int) -> bytes:
        """See Body."""
        found = os.pread(self._file.fileno(), length, start)
        if len(found) != length:
            raise FormatError(f"{self.path}: expected {length} bytes at {start}, found {len(found)}")
        return found

    def close(self) -> None:
        """See Body."""
        changed = _stat(self._file) != self._stat
        self._file.close()
        if changed:
            raise S4WeightsError(f"{self.path}: changed while it was read")


class Stored(Protocol):
    """Stored bytes, read by range. Thread-safe."""

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    def read(self, start: int, length: int) -> bytes:
        """Raises: OSError."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class StoredFile:
    """A container in a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.size = os.fstat(self._file.fileno()).st_size

    def read(self, start: int, length: int) -> bytes:
        """See Stored."""
        return os.pread(self._file.fileno(), length, start)

    def close(self) -> None:
        """See Stored."""
        self._file.close()


class BaseFinder(Protocol):
    """Where the bases of a container are looked for."""

    def read(self, bases: Sequence[BaseBody], needed: BaseRange, needing: Path) -> bytes:
        """Bytes of another body that a frame of `needing` is predicted from. Raises: MissingBase, FormatError."""
        ...


class ContainerBody:
    """What a container was made of, frame by frame. path: what messages name."""

    def __init__(self, path: Path, stored: Stored, engine: Engine, bases: BaseFinder) -> None:
        self.path = path
        self._stored_bytes = stored
        self._engine = engine
        size = stored.size
        with named_faults(str(path)):
            tail = read_tail(self._stored(max(0, size - TRAILER_BYTES), TRAILER_BYTES), object_bytes=size)
            end = size - tail.trailer.index_offset
            index = read_tail(self._stored(tail.trailer.index_offset, end), object_bytes=size).index
        if index is None:
            raise FormatError(f"{path}: expected an index at stored byte {tail.trailer.index_offset}, found none")
        self._index = index
        self.bases = read_bases(index.about)
        self.about = BaseBody(path.name, tail.trailer.logical_bytes, tail.trailer.digest, depth_on(self.bases))
        self._finder = bases
        # By number, with whether it is predicted from this body itself.
        self._kept: OrderedDict[int, tuple[bytes, bool]] = OrderedDict()
        self._lock = Lock()

    @property
    def rows(self) -> Any:
        """See Body."""
        return self._index.about.get("segments", [])

    def spans(self, start: int, length: int) -> list[FrameSpan]:
        """The frames that hold these bytes, in order."""
        return self._index.spans(start, length)

    def read(self, start: int, length: int) -> bytes:
        """See Body."""
        return self._read(start, length, may_be_twins=True)

    def decode(self, span: FrameSpan, engine: Engine) -> bytes:
        """One frame, by an engine of the caller's. Raises: FormatError, OSError."""
        return self._decode(span, engine, may_be_twin=True)[0]

    def close(self) -> None:
        """See Body; every frame was checked when it was decoded."""
        self._stored_bytes.close()

    def _stored(self, start: int, length: int) -> bytes:
        return self._stored_bytes.read(start, length)

    def _read(self, start: int, length: int, *, may_be_twins: bool) -> bytes:
        spans = self._index.spans(start, length)
        pieces = b"".join([self._frame(span, may_be_twin=may_be_twins) for span in spans])
        first = start - spans[0].start if spans else 0
        return pieces[first : first + length]

    def _frame(self, span: FrameSpan, *, may_be_twin: bool) -> bytes:
        with self._lock:
            kept = self._kept.get(span.number)
        body, is_twin = kept or self._decode(span, self._engine, may_be_twin=may_be_twin)
        if is_twin and not may_be_twin:
            raise FormatError(
                f"{self.path}: expected a base in this body that needs none of it, found frame {span.number} at {span.start}"
            )
        if kept is None:
            with self._lock:
                self._kept[span.number] = body, is_twin
                while sum(len(one) for one, _ in self._kept.values()) > _KEPT_BYTES:
                    self._kept.popitem(last=False)
        return body

    def _decode(self, span: FrameSpan, engine: Engine, *, may_be_twin: bool) -> tuple[bytes, bool]:
        where = str(self.path)
        stored = self._stored(span.stored_start, span.stored_bytes)
        needed = read_reference(stored, expected=span, where=where)
        base = None
        if needed is not None:
            check_reference(needed, self.bases, frame_start=span.start, where=f"{where}: frame {span.number}")
            if not refers_to_itself(needed):
                base = self._finder.read(self.bases, needed, self.path)
            elif may_be_twin:
                base = self._read(needed.reference.start, needed.length, may_be_twins=False)
            else:
                return b"", True
        body = decode_frame(stored, engine, expected=span, where=where, base=base)
        return body, refers_to_itself(needed)


class BaseFiles:
    """Finds bases by size and digest: among the paths given, and by name beside what needs them."""

    def __init__(self, paths: Sequence[Path], engine: Engine) -> None:
        self._paths = list(paths)
        self._engine = engine
        self._open: dict[Path, Body] = {}
        self._found: dict[BaseBody, Body] = {}
        self._lock = RLock()

    @property
    def paths(self) -> list[Path]:
        """Of the files that were opened."""
        return list(self._open)

    def open(self, path: Path) -> Body:
        """A container's body, or a file's. Raises: FormatError where it is a damaged container; OSError."""
        path = path.absolute()
        if path not in self._open:
            with path.open("rb") as file:
                head = file.read(HEADER_BYTES)
            self._open[path] = (
                ContainerBody(path, StoredFile(path), self._engine, self) if is_container(head) else PlainBody(path)
            )
        return self._open[path]

    def read(self, bases: Sequence[BaseBody], needed: BaseRange, needing: Path) -> bytes:
        """Bytes of another body that a frame of `needing` is predicted from; already checked but for the number.

        Raises: MissingBase, FormatError.
        """
        check_reference(needed, bases, frame_start=0, where=str(needing))
        base = bases[needed.reference.number - 1]
        with self._lock:
            if base not in self._found:
                self._found[base] = self._find(base, needing)
            body = self._found[base]
        return body.read(needed.reference.start, needed.length)

    def close(self) -> None:
        """Raises: S4WeightsError where one of the files changed."""
        bodies, self._open = list(self._open.values()), {}
        for body in bodies:
            body.close()

    def _find(self, base: BaseBody, needing: Path) -> Body:
        candidates = list(self._paths)
        # A key is text from a file: only a name leads anywhere.
        if base.key == Path(base.key).name:
            names = (base.key, base.key + SUFFIX, base.key.removesuffix(SUFFIX))
            candidates.extend(needing.parent / name for name in dict.fromkeys(names))
        for path in candidates:
            body = self.open(path) if path.is_file() else None
            if body is not None and (body.about.size, body.about.digest) == (base.size, base.digest):
                # Depths go down from body to body, so none can lead back to itself.
                if body.about.depth > base.depth:
                    raise FormatError(
                        f"{path}: expected at most {base.depth} bodies behind it, found {body.about.depth}"
                    )
                return body
        looked = (
            f"found it in none of {[str(path) for path in candidates]}" if candidates else "found no file of that name"
        )
        raise MissingBase(
            f"{needing}: expected its base {base.key!r}, {base.size} bytes with XXH3-128 {base.digest.hex()}; {looked}: name "
            "it (--base, in Python bases=), or read it where bases are found by their keys: `s4weights unpack -r` on the whole "
            "bucket, s4weights.load_checkpoint on a run"
        )


@contextmanager
def named_faults(name: str) -> Iterator[None]:
    """Of a container's start and end, whose readers know no name. Raises: FormatError that begins with it."""
    try:
        yield
    except FormatError as error:
        raise type(error)(f"{name}: {error}") from None


def is_container(head: bytes) -> bool:
    """head: the first HEADER_BYTES of a file."""
    try:
        check_header(head)
    except FormatError:
        return False
    return True


def _stat(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns
