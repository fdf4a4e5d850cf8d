"""Keys of a bucket in S3's order, without walking what is not asked for."""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .keymap import MORE_SUFFIX, join_names, plain_directory, plain_object


@dataclass(frozen=True, slots=True)
class _Node:
    """One name in a directory: an object, or the directories that hold the keys under it."""

    key: str  # of a directory: with its slash at the end
    names: tuple[str, ...]
    path: Path | None = None
    folders: tuple[Path, ...] = ()


class Walk:
    """(key, file) of every object whose key starts with prefix and is greater than after, in order of UTF-8 bytes.

    No key in a folder is smaller than the folder's own, so the smallest that waits is next. A heap, not a recursion: keys of
    a long component lie between those of its neighbours, and a key may be deeper than Python recurses.
    """

    def __init__(self, bucket: Path, *, prefix: str, after: str) -> None:
        self._prefix = _bytes(prefix)
        self._after = _bytes(after)
        self._waiting: list[tuple[bytes, int, _Node]] = []
        self._numbers = itertools.count()
        self._add(_nodes((bucket,), ()))

    def __iter__(self) -> Iterator[tuple[str, Path]]:
        return self

    def __next__(self) -> tuple[str, Path]:
        while self._waiting:
            key, _, node = heapq.heappop(self._waiting)
            if not self._is_asked(key, node):
                continue
            if node.path is not None:
                return node.key, node.path
            self._add(_nodes(node.folders, node.names))
        raise StopIteration

    def skip(self, after: str) -> None:
        """Go on behind a key; folders that hold none behind it are not looked into."""
        self._after = max(self._after, _bytes(after))

    def _add(self, nodes: Iterable[_Node]) -> None:
        for node in nodes:
            key = _bytes(node.key)
            if self._is_asked(key, node):
                heapq.heappush(self._waiting, (key, next(self._numbers), node))

    def _is_asked(self, key: bytes, node: _Node) -> bool:
        if node.path is not None:
            return key.startswith(self._prefix) and key > self._after
        return _may_hold(key, self._prefix, self._after)


def _may_hold(folder: bytes, prefix: bytes, after: bytes) -> bool:
    if not (folder.startswith(prefix) or prefix.startswith(folder)):
        return False
    # Every key in the folder starts with its name: all of them are at most `after` where that is beyond the folder.
    return folder > after or after.startswith(folder)


def _nodes(folders: tuple[Path, ...], names: tuple[str, ...]) -> list[_Node]:
    objects: dict[str, _Node] = {}
    inner: dict[str, list[Path]] = {}
    for folder in folders:
        for entry in _scan(folder):
            if entry.is_dir(follow_symlinks=False):
                inner.setdefault(plain_directory(entry.name), []).append(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                name = plain_object(entry.name)
                key = join_names([*names, name])
                if key is not None:
                    objects[key] = _Node(key, (), path=Path(entry.path))
    nodes = list(objects.values())
    for name, paths in inner.items():
        key = _folder_key((*names, name))
        if key is not None:
            nodes.append(_Node(key, (*names, name), folders=tuple(paths)))
    return nodes


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:  # its last key was deleted meanwhile
        return []


def _folder_key(names: tuple[str, ...]) -> str | None:
    """What all keys in a folder start with. Within a long component that is the part so far, without a slash."""
    long = 0
    while long < len(names) and names[len(names) - 1 - long].endswith(MORE_SUFFIX):
        long += 1
    whole = names[: len(names) - long]
    key = join_names(list(whole)) if whole else ""
    if key is None:
        return None
    if not long:
        return f"{key}/"
    text = "".join(name.removesuffix(MORE_SUFFIX) for name in names[len(names) - long :])
    part = join_names([text])
    if part is None:
        return None
    return f"{key}/{part}" if whole else part
