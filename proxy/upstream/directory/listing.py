"""Keys of a bucket in S3's order, without walking what is not asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .keymap import join_names, plain_directory, plain_object


@dataclass(frozen=True, slots=True)
class _Node:
    """One name in a directory: an object, or the directories that hold the keys under it."""

    key: str  # of a directory: with its slash at the end
    names: tuple[str, ...]
    path: Path | None = None
    folders: tuple[Path, ...] = ()


def walk(bucket: Path, *, prefix: str, after: str) -> Iterator[tuple[str, Path]]:
    """(key, file) of every object whose key starts with prefix and is greater than after, in order of UTF-8 bytes."""
    yield from _walk((bucket,), (), prefix.encode("utf-8", "surrogatepass"), after.encode("utf-8", "surrogatepass"))


def _walk(folders: tuple[Path, ...], names: tuple[str, ...], prefix: bytes, after: bytes) -> Iterator[tuple[str, Path]]:
    for node in _sorted_nodes(folders, names):
        key = node.key.encode("utf-8", "surrogatepass")
        if node.path is not None:
            if key.startswith(prefix) and key > after:
                yield node.key, node.path
        elif _may_hold(key, prefix, after):
            yield from _walk(node.folders, node.names, prefix, after)


def _may_hold(folder: bytes, prefix: bytes, after: bytes) -> bool:
    if not (folder.startswith(prefix) or prefix.startswith(folder)):
        return False
    # Every key in the folder starts with its name: all of them are at most `after` where that is beyond the folder.
    return folder > after or after.startswith(folder)


def _sorted_nodes(folders: tuple[Path, ...], names: tuple[str, ...]) -> list[_Node]:
    objects: dict[str, _Node] = {}
    inner: dict[str, list[Path]] = {}
    for folder in folders:
        for entry in os.scandir(folder):
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
    return sorted(nodes, key=lambda node: node.key.encode("utf-8", "surrogatepass"))


def _folder_key(names: tuple[str, ...]) -> str | None:
    """What all keys in a folder start with. Within a long component that is the part so far, without a slash."""
    long = 0
    while long < len(names) and names[len(names) - 1 - long].endswith("%+"):
        long += 1
    whole = names[: len(names) - long]
    key = join_names(list(whole)) if whole else ""
    if key is None:
        return None
    if not long:
        return f"{key}/"
    text = "".join(name.removesuffix("%+") for name in names[len(names) - long :])
    part = join_names([text])
    if part is None:
        return None
    return f"{key}/{part}" if whole else part
