"""What a pickle's opcodes are turned into instead of objects, and the storages found in them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from ..limits import MAX_STORAGES

MARK: Final = object()
_END: Final = object()
_NOTHING: Final = (_END, "")
# More elements than any storage has; it also bounds what arithmetic on sizes may cost.
_MAX_SIZE: Final = 1 << 60
# Types that torch keeps in an UntypedStorage and that are wider than a byte.
_DTYPE_BYTES: Final = {"uint16": 2, "uint32": 4, "uint64": 8}


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
    """A persistent id of torch: ('storage', type, key, location, numel). numel: bytes for UntypedStorage."""

    storage_type: str
    key: str
    numel: int

    @classmethod
    def of(cls, value: object) -> object:
        """The storage that a persistent id names, or None."""
        if not isinstance(value, tuple) or len(value) != 5 or value[0] != "storage":
            return None
        _, storage_type, key, _, numel = value
        if not isinstance(storage_type, Global) or not isinstance(key, str) or type(numel) is not int:
            return None
        if not 0 <= numel < _MAX_SIZE:
            return None
        return cls(storage_type.name, key, numel)


@dataclass(frozen=True, slots=True)
class NamedStorage:
    """A storage, and where the saved object holds it.

    shape: of the first tensor, where it fills the storage. dtype: torch's name of the type, where only the tensor says it.
    """

    storage: Persistent
    name: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None


def find_storages(root: object) -> Iterator[NamedStorage]:
    """Every storage once, by key, in the order in which the saved object is walked. Bounded by MAX_STORAGES visits a kind."""
    seen: set[str] = set()
    visited: set[int] = set()
    # Iterators, not their items: a list may name one object a million times.
    waiting: list[Iterator[tuple[object, str]]] = [iter([(root, "")])]
    while waiting and len(visited) < MAX_STORAGES:
        value, path = next(waiting[-1], _NOTHING)
        if value is _END:
            waiting.pop()
            continue
        named = _storage(value, path or None)
        if named is not None and named.storage.key not in seen:
            seen.add(named.storage.key)
            yield named
        if isinstance(value, list | tuple | Items | Call) and id(value) not in visited:
            visited.add(id(value))
            waiting.append(_children(value, path))


def _storage(value: object, name: str | None) -> NamedStorage | None:
    """The storage of a bare persistent id, or of a tensor that is rebuilt from one."""
    if isinstance(value, Persistent):
        return NamedStorage(value, name)
    if not isinstance(value, Call) or not isinstance(value.function, Global) or len(value.arguments) < 3:
        return None
    storage, _, shape = value.arguments[:3]
    if not isinstance(storage, Persistent) or not isinstance(shape, tuple) or len(shape) > 64:
        return None
    if not all(type(size) is int and 0 <= size < _MAX_SIZE for size in shape):
        return None
    dtype = None
    if value.function.name == "_rebuild_tensor_v3" and len(value.arguments) > 6:
        kind = value.arguments[6]
        dtype = kind.name if isinstance(kind, Global) else None
    count = storage.numel // _DTYPE_BYTES.get(dtype, 1) if dtype is not None else storage.numel
    return NamedStorage(storage, name, shape if math.prod(shape) == count else None, dtype)


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
    # Long keys and paths are cut before they are joined: a name is for people, and keys may be shared.
    part = key[:200] if isinstance(key, str) else str(key) if isinstance(key, int) else "?"
    return f"{path}.{part}"[-200:] if path else part
