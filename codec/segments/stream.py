"""A body that arrives in pieces, for parsers that are written as if all of it were there.

A parser is a generator: it asks for exact numbers of bytes with `yield from` and stands still until they have come. So what
it finds cannot depend on how the body was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, TypeVar

from ..limits import MAX_PARSER_STEPS
from ..types import ElementType, Segment
from .tiling import Tiling

T = TypeVar("T")
Step = Generator[None, None, T]
Parser = Callable[["Stream"], Step[bool]]

# Fed bytes are copied in pieces of this size, and only where the parser does not skip them.
_PIECE_BYTES: Final = 64 << 10


class GiveUp(Exception):
    """The body is not what it seemed; the rest of it is untyped."""


class Stream:
    """What a parser sees. at: logical offset of the first byte not yet taken; data: what has come from there on."""

    def __init__(self) -> None:
        self.at = 0
        self.data = bytearray()
        self._tiling = Tiling()
        self._to_skip = 0
        self._steps = 0

    def charge(self, steps: int = 1) -> None:
        """Count steps whose number the body decides. Raises: GiveUp past MAX_PARSER_STEPS."""
        self._steps += steps
        if self._steps > MAX_PARSER_STEPS:
            raise GiveUp

    def ahead(self, size: int) -> Step[None]:
        """Wait until `data` holds size bytes."""
        while len(self.data) < size:
            yield

    def peek(self, size: int) -> Step[bytes]:
        """The next size bytes, without taking them."""
        yield from self.ahead(size)
        return bytes(self.data[:size])

    def read(self, size: int) -> Step[bytes]:
        """Take the next size bytes."""
        yield from self.ahead(size)
        return self._take(size)

    def some(self, at_most: int) -> Step[bytes]:
        """Take what has come, at least a byte. The caller must not care how much that is."""
        yield from self.ahead(1)
        return self._take(min(len(self.data), at_most))

    def give_back(self, data: bytes | bytearray) -> None:
        """Undo the end of a `some`."""
        self.data[:0] = data
        self.at -= len(data)

    def skip(self, size: int) -> Step[None]:
        """Go on by size bytes; they are not kept."""
        self.advance(size)
        while self._to_skip:
            yield

    def skip_to(self, offset: int) -> Step[None]:
        """Go on to a logical offset; nothing where that is already behind."""
        yield from self.skip(max(0, offset - self.at))

    def skip_found(self) -> Step[None]:
        """Go on to the end of all runs that were announced."""
        yield from self.skip_to(self._tiling.reach)

    def advance(self, size: int) -> None:
        """As skip, for a size that has come, or where nothing else is asked for before it has."""
        here = min(size, len(self.data))
        del self.data[:here]
        self.at += here
        self._to_skip = size - here

    def add(
        self,
        start: int,
        length: int,
        element: ElementType,
        name: str | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """Announce a run with a type or a name. Its first byte must not have come before the parser could know of it."""
        self._tiling.add(start, length, element, name, shape)

    def _take(self, size: int) -> bytes:
        taken = bytes(self.data[:size])
        del self.data[:size]
        self.at += size
        return taken

    def _push(self, data: memoryview) -> int:
        """Take the next bytes of the body in; return how many."""
        if self._to_skip:
            size = min(self._to_skip, len(data))
            self._to_skip -= size
            self.at += size
            return size
        self.data += data[:_PIECE_BYTES]
        return min(len(data), _PIECE_BYTES)


class StreamSegmenter(Stream):
    """Runs a parser over a body; a Segmenter."""

    def __init__(self, parser: Callable[[Stream], Step[None]]) -> None:
        super().__init__()
        self._running: Step[None] | None = parser(self)
        self._resume()

    def feed(self, data: memoryview) -> list[Segment]:
        """See Segmenter."""
        self._tiling.fed += len(data)
        done = 0
        while self._running is not None and done < len(data):
            done += self._push(data[done:])
            self._resume()
        return self._tiling.take()

    def _resume(self) -> None:
        try:
            if self._running is not None:
                next(self._running)
        except (StopIteration, GiveUp):
            self._running = None
            self.data.clear()
