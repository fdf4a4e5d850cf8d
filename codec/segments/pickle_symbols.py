"""What a pickle's opcodes are turned into instead of objects, and the storages found in them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from ..limits import MAX_STORAGES

MARK: Final = object()


@dataclass(frozen=True, slots=True)
class Global:
    """A name that unpickling would import."""

    module: str
    name: str


@dataclass(slots=True, eq=False)
class Items:
    """A dict; its keys need not be hashable here."""

    pairs: list[tuple[object, object]] = field(default_factory=list)

    @classmethod
    def of(cls, items: list[object]) -> Self:
        """From keys and values in turn."""
        return cls(list(zip(items[::2], items[1::2], strict=False)))


@dataclass(slots=True, eq=False)
class Call:
    """What unpickling would call, with which arguments and state."""

    function: object
    arguments: tuple[object, ...]
    state: object = None


@dataclass(frozen=True, slots=True, eq=False)
class Persistent:
    """A persistent id of torch: ('storage', type, key, location, numel)."""

    storage_type: str
    key: str
    numel: int

    @classmethod
    def of(cls, value: object) -> object:
        """The storage that a persistent id names, or None."""
        if not isinstance(value, tuple) or len(value) != 5 or value[0] != "storage":
            return None
        _, storage_type, key, _, numel = value
        if not isinstance(storage_type, Global) or not isinstance(key, str) or type(numel) is not int or numel < 0:
            return None
        return cls(storage_type.name, key, numel)


@dataclass(frozen=True, slots=True)
class NamedStorage:
    """A storage, and where the saved object holds it. shape: of the first tensor, where it fills the storage."""

    storage: Persistent
    name: str | None
    shape: tuple[int, ...] | None


def find_storages(root: object) -> Iterator[NamedStorage]:
    """Every storage once, by key, in the order in which the saved object is walked. Bounded by MAX_STORAGES visits a kind."""
    seen: set[str] = set()
    visited: set[int] = set()
    waiting: list[tuple[object, str]] = [(root, "")]
    while waiting and len(visited) < MAX_STORAGES:
        value, path = waiting.pop()
        if isinstance(value, Persistent):
            if value.key not in seen:
                seen.add(value.key)
                yield NamedStorage(value, path or None, None)
            continue
        if not isinstance(value, list | tuple | Items | Call) or id(value) in visited:
            continue
        visited.add(id(value))
        tensor = _tensor(value)
        if tensor is not None:
            storage, shape = tensor
            if storage.key not in seen:
                seen.add(storage.key)
                yield NamedStorage(storage, path or None, shape if math.prod(shape) == storage.numel else None)
        waiting.extend(reversed(list(_children(value, path))))


def _tensor(value: object) -> tuple[Persistent, tuple[int, ...]] | None:
    if not isinstance(value, Call) or not isinstance(value.function, Global) or len(value.arguments) < 3:
        return None
    storage, _, shape = value.arguments[:3]
    if not isinstance(storage, Persistent) or not isinstance(shape, tuple) or len(shape) > 64:
        return None
    if not all(type(size) is int and 0 <= size < 1 << 62 for size in shape):
        return None
    return storage, shape


def _children(value: object, path: str) -> Iterator[tuple[object, str]]:
    if isinstance(value, Items):
        for key, item in value.pairs:
            yield item, _join(path, key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield item, _join(path, number)
    elif isinstance(value, tuple):
        for item in value:
            yield item, path
    elif isinstance(value, Call):
        yield value.arguments, path
        yield value.state, path


def _join(path: str, key: object) -> str:
    part = str(key) if isinstance(key, str | int) else "?"
    # Long paths are cut: a name is for people.
    return f"{path}.{part}"[-200:] if path else part[:200]
