"""The storages that a torch pickle names: which tensor shows each best, and what its bytes are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..limits import MAX_STORAGES
from ..types import ElementType
from .elements import COMPLEX_STORAGES, DTYPES, STORAGES
from .pickle_symbols import MAX_SIZE, Call, Global, Items, Persistent

_END: Final = object()
_NOTHING: Final = (_END, "")
_MAX_DIMENSIONS: Final = 64


@dataclass(frozen=True, slots=True)
class NamedStorage:
    """A storage, and where the saved object holds it.

    element: None where its type, and so its length, is not known. length: bytes; unit_bytes: of what the pickle counts.
    shape: of the first tensor that covers the storage, as in memory.
    """

    key: str
    element: ElementType | None
    length: int
    unit_bytes: int
    name: str | None = None
    shape: tuple[int, ...] | None = None


def find_storages(root: object) -> list[NamedStorage]:
    """Every storage once, in the order in which the saved object is walked. Bounded by MAX_STORAGES visits."""
    found: dict[str, NamedStorage] = {}
    visited: set[int] = set()
    # Iterators, not their items: a list may name one object a million times.
    waiting: list[Iterator[tuple[object, str]]] = [iter([(root, "")])]
    while waiting and len(visited) < MAX_STORAGES:
        value, path = next(waiting[-1], _NOTHING)
        if value is _END:
            waiting.pop()
            continue
        named = _storage(value, path or None)
        if named is not None:
            known = found.get(named.key)
            if known is None or (known.shape is None and named.shape is not None):
                found[named.key] = named
        if isinstance(value, list | tuple | Items | Call) and id(value) not in visited:
            visited.add(id(value))
            waiting.append(_children(value, path))
        source = value.source if isinstance(value, Items) else None
        if source is not None and id(source) not in visited:
            visited.add(id(source))
            waiting.append(_pairs(source, path))
    return list(found.values())


def _storage(value: object, name: str | None) -> NamedStorage | None:
    """The storage of a bare persistent id, or of the arguments that a tensor is rebuilt from.

    These begin with storage, offset, size and stride in every version of torch; a seventh may be the type.
    """
    if isinstance(value, Persistent):
        return _typed(value, name)
    if not isinstance(value, tuple) or len(value) < 3 or not isinstance(value[0], Persistent):
        return None
    size = _sizes(value[2])
    dtype = value[6].name if len(value) > 6 and isinstance(value[6], Global) else None
    strides = _sizes(value[3]) if len(value) > 3 else None
    return _typed(value[0], name, dtype, size, strides)


def _sizes(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, tuple) or len(value) > _MAX_DIMENSIONS:
        return None
    return value if all(type(size) is int and 0 <= size < MAX_SIZE for size in value) else None


def _typed(
    storage: Persistent,
    name: str | None,
    dtype: str | None = None,
    size: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> NamedStorage:
    element = STORAGES.get(storage.storage_type)
    if element is None:
        return NamedStorage(storage.key, None, 0, 0, name)
    pair = 2 if storage.storage_type in COMPLEX_STORAGES else 1
    unit_bytes = element.width * pair
    length = storage.numel * unit_bytes
    if element is ElementType.BYTES and dtype is not None:
        element, pair = DTYPES.get(dtype, (ElementType.BYTES, 1))
    count = length // element.width // pair
    shape = None if size is None else _memory_shape(size, strides, count)
    if shape is not None and pair == 2:
        shape = (*shape, 2)
    return NamedStorage(storage.key, element, length, unit_bytes, name, shape)


def _memory_shape(size: tuple[int, ...], strides: tuple[int, ...] | None, count: int) -> tuple[int, ...] | None:
    """The dimensions of a tensor in the order of its memory; None where it does not cover all count elements."""
    if math.prod(size) != count:
        return None
    if strides is None or len(strides) != len(size) or count == 0:
        return size
    if _is_dense(size, strides):
        return size
    order = sorted((number for number in range(len(size)) if size[number] != 1), key=lambda number: -strides[number])
    ordered = tuple(size[number] for number in order)
    return ordered if _is_dense(ordered, tuple(strides[number] for number in order)) else None


def _is_dense(size: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for length, stride in zip(reversed(size), reversed(strides), strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


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


def _pairs(source: list[object], path: str) -> Iterator[tuple[object, str]]:
    for pair in source:
        if isinstance(pair, list | tuple) and len(pair) == 2:
            yield pair[1], _join(path, pair[0])


def _join(path: str, key: object) -> str:
    # Long keys and paths are cut before they are joined: a name is for people, and keys may be shared.
    part = key[:200] if isinstance(key, str) else str(key) if isinstance(key, int) else "?"
    return f"{path}.{part}"[-200:] if path else part
