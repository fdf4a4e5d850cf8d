"""Where an object lies, or would lie: the rules of keymap applied to what is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from s4weights.proxy.errors import S3Error

from .durable import make_folder
from .keymap import DIRECTORY_SUFFIX, OBJECT_SUFFIX, find_directory, is_directory, is_object, split_key

# Linux's PATH_MAX without the end, and room for the suffix of one name.
_MAX_PATH_BYTES: Final = 4096 - 1 - 2


def find_object(bucket: Path, key: str) -> Path | None:
    """The file of a key, or None. Raises: S3Error KeyTooLongError where the path would not fit the system's calls."""
    names = split_key(key)
    path_bytes = len(os.fsencode(bucket)) + sum(len(os.fsencode(name)) + 1 for name in names)
    if path_bytes > _MAX_PATH_BYTES:
        raise S3Error(
            "KeyTooLongError", f"The key's path takes {path_bytes} bytes, expected at most {_MAX_PATH_BYTES}."
        )
    parents = [bucket]
    for name in names[:-1]:
        parents = [found for parent in parents for found in find_directory(parent, name)]
    for parent in parents:
        for path in (parent / (names[-1] + OBJECT_SUFFIX), parent / names[-1]):
            if is_object(path):
                return path
    return None


def place_object(bucket: Path, key: str) -> Path:
    """Where a key's file is, or is to be put; directories on the way are made. Under the bucket's lock."""
    found = find_object(bucket, key)
    if found is not None:
        return found
    names = split_key(key)
    parent = bucket
    for name in names[:-1]:
        parent = _make_directory(parent, name)
    path = parent / names[-1]
    return path if not _is_taken(path) else parent / (names[-1] + OBJECT_SUFFIX)


def remove_empty_parents(bucket: Path, path: Path) -> None:
    """Remove the directories that an object leaves empty, never the bucket."""
    for parent in path.parents:
        if parent == bucket:
            return
        try:
            parent.rmdir()
        except OSError:
            return


def _make_directory(parent: Path, name: str) -> Path:
    existing = find_directory(parent, name)
    if existing:
        return existing[-1]
    path = parent / name
    if _is_taken(path):
        path = parent / (name + DIRECTORY_SUFFIX)
    try:
        make_folder(path)
    except OSError as error:
        raise S3Error("InvalidRequest", f"The key cannot be kept in this directory: {error.strerror}") from error
    return path


def _is_taken(path: Path) -> bool:
    return path.is_symlink() or is_directory(path) or path.exists()
