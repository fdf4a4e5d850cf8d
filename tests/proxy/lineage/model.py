"""A bucket in memory, and every order in which a few operations can meet in it, each of which may die at any call."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any

from s4weights.proxy.lineage import protocol
from s4weights.proxy.lineage.calls import Commit, CopyAside, ListUnder, Look, NewObject, Occupant, Put, Read, Remove
from s4weights.proxy.lineage.names import Content, hidden_depth, hidden_of, is_hidden

Operation = Callable[[], Generator[Any, Any, Any]]


@dataclass(frozen=True)
class Stored:
    """etag: of one write."""

    etag: str
    new: NewObject | None = None
    text: bytes = b""


class Bucket:
    """Answers calls, at once and in order: strongly consistent, as S3 is."""

    def __init__(self, objects: dict[str, Stored], *, copies_blindly: bool = False) -> None:
        """copies_blindly: whatever is there, as servers do that know no conditions on a copy's source."""
        self.objects = dict(objects)
        self.copies_blindly = copies_blindly

    def answer(self, call: Any, write: str) -> Any:
        """write: a name for the ETag of what this call writes."""
        match call:
            case Look(key):
                found = self.objects.get(key)
                return None if found is None or found.new is None else occupant(found)
            case Put(key, text):
                self.objects[key] = Stored(write, None, text)
            case Read(key):
                return self.objects[key].text if key in self.objects else None
            case ListUnder(prefix):
                return sorted(key for key in self.objects if key.startswith(prefix))
            case CopyAside(key, etag, target):
                found = self.objects.get(key)
                if found is None or (found.etag != etag and not self.copies_blindly):
                    return False
                self.objects[target] = replace(found, etag=write)
                return True
            case Remove(key):
                self.objects.pop(key, None)
            case Commit(key, seen, new):
                found = self.objects.get(key)
                if (found.etag if found is not None else None) != seen:
                    return False
                if new is None:
                    self.objects.pop(key, None)
                else:
                    self.objects[key] = Stored(write, new)
                return True
            case _:
                raise AssertionError(call)
        return None

    def frozen(self) -> frozenset[tuple[str, Stored]]:
        return frozenset(self.objects.items())


def occupant(found: Stored) -> Occupant:
    assert found.new is not None
    return Occupant(found.etag, found.new.content, found.new.depth, found.new.needs)


def lost(objects: dict[str, Stored]) -> list[str]:
    """Objects of the client's that cannot be read."""
    return [key for key, found in objects.items() if not is_hidden(key) and found.new and not readable(objects, found)]


def readable(objects: dict[str, Stored], found: Stored) -> bool:
    """Whether every base is where a reader looks for it, and so on down."""
    assert found.new is not None
    for need in found.new.needs:
        places = [objects.get(need.key)]
        places += [
            objects[key]
            for key in sorted(objects)
            if key.startswith(hidden_of(need.content)) and hidden_depth(key) <= need.depth
        ]
        holds = [
            one
            for one in places
            if one is not None and one.new and one.new.content == need.content and one.new.depth <= need.depth
        ]
        if not any(readable(objects, one) for one in holds):
            return False
    return True


@dataclass(frozen=True)
class State:
    """histories: the answers that each operation has had so far; dead: it got no further."""

    bucket: frozenset[tuple[str, Stored]]
    histories: tuple[tuple[Any, ...], ...]
    dead: frozenset[int] = frozenset()


class Explorer:
    """Runs operations against one another in every order. crashes: how many may die, each at any call."""

    def __init__(
        self,
        start: dict[str, Stored],
        operations: Iterable[Operation],
        crashes: int = 1,
        *,
        copies_blindly: bool = False,
    ) -> None:
        """copies_blindly: as Bucket's."""
        self.start = start
        self.operations = list(operations)
        self.crashes = crashes
        self.copies_blindly = copies_blindly
        self.states = 0
        self.ends: set[frozenset[tuple[str, Stored]]] = set()

    def explore(self, check: Callable[[dict[str, Stored]], list[str]]) -> None:
        """Raises: AssertionError with the first order found in which check names an object."""
        first = State(frozenset(self.start.items()), tuple(() for _ in self.operations))
        waiting: list[tuple[State, tuple[str, ...]]] = [(first, ())]
        seen = {first}
        while waiting:
            state, trail = waiting.pop()
            self.states += 1
            bad = check(dict(state.bucket))
            assert not bad, "\n".join([f"{bad} after:", *trail])
            steps = list(self._next(state))
            if not steps:
                self.ends.add(state.bucket)
            for after, said in steps:
                if after not in seen:
                    seen.add(after)
                    waiting.append((after, (*trail, said)))

    def _next(self, state: State) -> Iterable[tuple[State, str]]:
        for number, operation in enumerate(self.operations):
            if number in state.dead:
                continue
            history = state.histories[number]
            call = self._call(operation, history, number)
            if call is None:
                continue
            bucket = Bucket(dict(state.bucket), copies_blindly=self.copies_blindly)
            answer = bucket.answer(call, f"{number}.{len(history)}")
            if isinstance(answer, list):
                answer = tuple(answer)
            histories = list(state.histories)
            histories[number] = (*history, answer)
            yield (
                State(bucket.frozen(), tuple(histories), state.dead),
                f"  {number}: {call} -> {answer}",
            )
            if len(state.dead) < self.crashes and history:
                yield State(state.bucket, state.histories, state.dead | {number}), f"  {number}: dies"

    def _call(self, operation: Operation, history: tuple[Any, ...], number: int) -> Any:
        """The next call of an operation that has had these answers; None: it has ended."""
        names = iter(range(1000))
        original = protocol.new_nonce
        protocol.new_nonce = lambda: f"n{number}{next(names)}"
        try:
            running = operation()
            call = next(running, None)
            for answer in history:
                try:
                    call = running.send(list(answer) if isinstance(answer, tuple) else answer)
                except (StopIteration, protocol.Contended):
                    return None
            return call
        finally:
            protocol.new_nonce = original


def run(objects: dict[str, Stored], steps: Generator[Any, Any, Any]) -> Any:
    """Steps by themselves, to their end."""
    bucket, answer = Bucket(objects), None
    for count in range(10_000):
        try:
            call = steps.send(answer)
        except StopIteration as end:
            objects.clear()
            objects.update(bucket.objects)
            return end.value
        answer = bucket.answer(call, f"s{count}")
    raise AssertionError("no end")


def content(name: str) -> Content:
    """A body of that name."""
    return Content(name.encode().hex().ljust(32, "0"), 1 << 30)
