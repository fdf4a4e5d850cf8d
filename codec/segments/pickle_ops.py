"""The opcodes of a pickle, read as they stream past: nothing is imported, nothing is called.

Only what names storages is understood: containers, globals and persistent ids become plain symbols. Every bound is in
limits.py. Source of the opcodes: Python's Lib/pickletools.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from ..limits import MAX_PICKLE_BYTES, MAX_PICKLE_DEPTH, MAX_PICKLE_MEMO, MAX_PICKLE_OPS, MAX_PICKLE_STACK
from .pickle_symbols import MARK, Call, Global, Items, Persistent


class PickleFault(Exception):
    """The pickle is damaged, hostile or past a limit; its body stays untyped."""


# Opcode -> bytes of its argument.
_ARGUMENTS: Final[dict[int, int]] = {
    **{ord(code): 1 for code in "hqK"},
    **{ord(code): 4 for code in "jrJ"},
    ord("M"): 2,
    ord("G"): 8,
    0x80: 1,
    0x82: 1,
    0x83: 2,
    0x84: 4,
    0x95: 8,
}
# Opcode -> bytes of the length that stands before its argument.
_COUNTED: Final[dict[int, int]] = {
    **{ord(code): 1 for code in "UC"},
    **{ord(code): 4 for code in "TXB"},
    0x8C: 1,
    0x8D: 8,
    0x8E: 8,
    0x96: 8,
    0x8A: 1,
    0x8B: 4,
}
# Opcode -> lines of its argument.
_LINES: Final[dict[int, int]] = {**{ord(code): 1 for code in "IFLSVPgp"}, **{ord(code): 2 for code in "ci"}}
_PLAIN: Final = frozenset(b"(.012NRQabd})l]otesu\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98")
# The same, for all: None where the argument says its own length, or the opcode is unknown.
_FIXED: Final = [0 if code in _PLAIN else _ARGUMENTS.get(code) for code in range(256)]
_DICTS: Final = frozenset({"OrderedDict", "defaultdict", "dict"})
_MAX_LINE_BYTES: Final = 64 << 10
_MAX_TEXT_BYTES: Final = 64 << 10


class PickleReader:
    """Feed bytes until `done`; then `result` is the pickle's symbolic value.

    end, ops: bytes and number of whole opcodes read so far. rest: of the bytes fed, those that are not part of one.
    """

    def __init__(self) -> None:
        self.done = False
        self.failed = False
        self.end = 0
        self.rest = bytearray()
        self.result: object = None
        self._at = 0  # in rest: where the next opcode begins
        self.ops = 0
        self._stack: list[object] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}

    def feed(self, data: memoryview) -> None:
        """Take the next bytes. Raises: PickleFault, in the same place however the bytes were cut."""
        self.rest += data
        self._at = 0
        try:
            self._run()
        except PickleFault:
            self.failed = True
            raise
        except (IndexError, KeyError, ValueError, TypeError, struct.error) as error:
            self.failed = True
            raise PickleFault(f"pickle: damaged at byte {self.end + self._at}: {error!r}") from None
        finally:
            self.end += self._at
            del self.rest[: self._at]

    def _run(self) -> None:
        """Read the opcodes that are there as a whole."""
        data, size, stack = self.rest, len(self.rest), self._stack
        last = MAX_PICKLE_BYTES - self.end
        while not self.done:
            at = self._at
            if at > last:
                raise PickleFault(f"pickle: expected at most {MAX_PICKLE_BYTES} bytes")
            if at >= size:
                return
            code = data[at]
            fixed = _FIXED[code]
            if fixed == 0:
                argument = b""
                self._at = at + 1
            else:
                end = at + 1 + fixed if fixed is not None else self._end(code, at + 1)
                if end is None or end > size:
                    return
                # Without the length in front of it.
                argument = bytes(data[at + 1 + _COUNTED.get(code, 0) : end])
                self._at = end
            self.ops += 1
            if self.ops > MAX_PICKLE_OPS:
                raise PickleFault(f"pickle: expected at most {MAX_PICKLE_OPS} opcodes")
            if len(stack) > MAX_PICKLE_STACK:
                raise PickleFault(f"pickle: expected at most {MAX_PICKLE_STACK} values on the stack")
            act = _ACTS[code]
            if act is not None:
                act(self, argument)

    def _end(self, code: int, at: int) -> int | None:
        """Where the argument of variable length ends; None where that cannot be seen yet."""
        data = self.rest
        if code in _COUNTED:
            size = _COUNTED[code]
            if len(data) < at + size:
                return None
            length = int.from_bytes(data[at : at + size], "little")
            if self.end + at + length > MAX_PICKLE_BYTES:
                raise PickleFault(f"pickle: expected a string of at most {MAX_PICKLE_BYTES} bytes, found {length}")
            return at + size + length
        if code not in _LINES:
            raise PickleFault(f"pickle: expected a known opcode at byte {self.end + at - 1}, found {code:#x}")
        end = at
        for _ in range(_LINES[code]):
            end = data.find(b"\n", end, at + _MAX_LINE_BYTES) + 1
            if end == 0:
                if len(data) >= at + _MAX_LINE_BYTES:
                    raise PickleFault(f"pickle: expected a line of at most {_MAX_LINE_BYTES} bytes")
                return None
        return end

    # What follows acts on the symbolic stack.

    def pop_mark(self) -> list[object]:
        start = self._marks.pop()
        items = self._stack[start + 1 :]
        del self._stack[start:]
        return items

    def drop_mark(self) -> None:
        self.pop_mark()

    def mark(self, _: bytes) -> None:
        if len(self._marks) >= MAX_PICKLE_DEPTH:
            raise PickleFault(f"pickle: expected at most {MAX_PICKLE_DEPTH} open marks")
        self._marks.append(len(self._stack))
        self._stack.append(MARK)

    def stop(self, _: bytes) -> None:
        self.result = self._stack.pop()
        self.done = True
        self._memo.clear()

    def push(self, value: object) -> None:
        self._stack.append(value)

    def put(self, index: int) -> None:
        if len(self._memo) >= MAX_PICKLE_MEMO:
            raise PickleFault(f"pickle: expected at most {MAX_PICKLE_MEMO} memo entries")
        self._memo[index] = self._stack[-1]

    def get(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def take(self, count: int) -> list[object]:
        if len(self._stack) < count:
            raise IndexError("stack")
        items = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return items

    def memoize(self, _: bytes) -> None:
        self.put(len(self._memo))

    def pop(self, _: bytes) -> None:
        if self._stack.pop() is MARK:
            self._marks.pop()

    def set_items(self, items: list[object]) -> None:
        target = self._stack[-1]
        if isinstance(target, Items):
            target.pairs.extend(zip(items[::2], items[1::2], strict=False))

    def append_items(self, items: list[object]) -> None:
        target = self._stack[-1]
        if isinstance(target, list):
            target.extend(items)

    def reduce(self, _: bytes) -> None:
        function, arguments = self.take(2)
        if isinstance(function, Global) and function.name in _DICTS:
            source = arguments[0] if isinstance(arguments, tuple) and len(arguments) == 1 else None
            self.push(Items(source=source if isinstance(source, list) else None))
        else:
            self.push(Call(function, arguments if isinstance(arguments, tuple) else ()))

    def new_object(self, _: bytes) -> None:
        function, arguments = self.take(2)
        self.push(Call(function, arguments if isinstance(arguments, tuple) else ()))

    def build(self, _: bytes) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if isinstance(target, Call):
            target.state = state

    def stack_global(self, _: bytes) -> None:
        module, name = self.take(2)
        # Anything but text is hostile, and turning it into text may never end.
        is_text = isinstance(module, str) and isinstance(name, str)
        self.push(Global(module, name) if is_text else None)  # type: ignore[arg-type]

    def global_(self, argument: bytes) -> None:
        module, name = argument.decode("utf-8", "replace").split("\n")[:2]
        self.push(Global(module, name))

    def instance(self, argument: bytes) -> None:
        self.pop_mark()
        self.global_(argument)


_Action = Callable[[PickleReader, bytes], None]


def _text(reader: PickleReader, argument: bytes) -> None:
    # A name is for people: what is not UTF-8 (Python 2) is shown as far as it goes; that takes long, and a text of megabytes
    # is no name.
    reader.push(argument.decode("utf-8", "replace") if len(argument) <= _MAX_TEXT_BYTES else None)


def _integer(reader: PickleReader, argument: bytes) -> None:
    # A number of kilobytes is no size of anything.
    reader.push(int.from_bytes(argument, "little", signed=True) if len(argument) <= 16 else None)


def _line_integer(reader: PickleReader, argument: bytes) -> None:
    text = argument.strip().rstrip(b"L")
    reader.push(int(text) if len(text) <= 32 else None)


def _tuple(count: int) -> _Action:
    return lambda reader, _: reader.push(tuple(reader.take(count)))


def _constant(value: object) -> _Action:
    return lambda reader, _: reader.push(value)


def _push_none(reader: PickleReader, _: bytes) -> None:
    reader.push(None)


_ACTIONS: Final[dict[int, _Action]] = {
    ord("("): PickleReader.mark,
    ord("."): PickleReader.stop,
    ord("0"): PickleReader.pop,
    ord("1"): lambda reader, _: reader.drop_mark(),
    ord("2"): lambda reader, _: reader.push(reader._stack[-1]),
    ord("K"): lambda reader, argument: reader.push(argument[0]),
    ord("M"): lambda reader, argument: reader.push(int.from_bytes(argument, "little")),
    ord("J"): _integer,
    0x8A: _integer,
    0x8B: _integer,
    ord("I"): _line_integer,
    ord("L"): _line_integer,
    ord("X"): _text,
    0x8C: _text,
    0x8D: _text,
    ord("U"): _text,
    ord("T"): _text,
    ord("V"): lambda reader, argument: reader.push(argument[:-1].decode("latin-1")),
    ord("c"): PickleReader.global_,
    0x93: PickleReader.stack_global,
    ord("Q"): lambda reader, _: reader.push(Persistent.of(reader._stack.pop())),
    ord("R"): PickleReader.reduce,
    0x81: PickleReader.new_object,
    0x92: lambda reader, _: reader.push(Call(*(reader.take(3)[:2]))),  # type: ignore[arg-type]
    ord("b"): PickleReader.build,
    ord("}"): lambda reader, _: reader.push(Items()),
    ord("]"): lambda reader, _: reader.push([]),
    ord(")"): _constant(()),
    ord("N"): _constant(None),
    0x88: _constant(True),
    0x89: _constant(False),
    0x8F: lambda reader, _: reader.push([]),
    ord("d"): lambda reader, _: reader.push(Items.of(reader.pop_mark())),
    ord("l"): lambda reader, _: reader.push(list(reader.pop_mark())),
    ord("t"): lambda reader, _: reader.push(tuple(reader.pop_mark())),
    0x91: lambda reader, _: reader.push(tuple(reader.pop_mark())),
    0x85: _tuple(1),
    0x86: _tuple(2),
    0x87: _tuple(3),
    ord("a"): lambda reader, _: reader.append_items(reader.take(1)),
    ord("e"): lambda reader, _: reader.append_items(reader.pop_mark()),
    0x90: lambda reader, _: reader.append_items(reader.pop_mark()),
    ord("s"): lambda reader, _: reader.set_items(reader.take(2)),
    ord("u"): lambda reader, _: reader.set_items(reader.pop_mark()),
    ord("q"): lambda reader, argument: reader.put(argument[0]),
    ord("r"): lambda reader, argument: reader.put(int.from_bytes(argument, "little")),
    ord("p"): lambda reader, argument: reader.put(int(argument[:32])),
    0x94: PickleReader.memoize,
    ord("h"): lambda reader, argument: reader.get(argument[0]),
    ord("j"): lambda reader, argument: reader.get(int.from_bytes(argument, "little")),
    ord("g"): lambda reader, argument: reader.get(int(argument[:32])),
    ord("o"): lambda reader, _: reader.push(Call(*_function_and_rest(reader.pop_mark()))),
    ord("i"): PickleReader.instance,
}
# Floats, byte strings, extension codes: never part of a storage's name or size.
_PUSHES_NONE: Final = frozenset(b"GFBCSP\x82\x83\x84\x8e\x96\x97")
_ACTS: Final = [_ACTIONS.get(code, _push_none if code in _PUSHES_NONE else None) for code in range(256)]


def _function_and_rest(items: list[object]) -> tuple[object, tuple[object, ...]]:
    return (items[0], tuple(items[1:])) if items else (None, ())
