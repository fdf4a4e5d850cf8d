"""Keys to paths and back: readable where they can be, never outside the bucket, exactly invertible. See ADR 0005.

A key is split at its slashes; each component becomes a name. What a file system cannot hold is percent-escaped; `%` itself
always is, so that a bare `%` in a name is ours to use:

    NAME%    an object, where a directory has its plain name
    NAME%d   a directory, where an object has its plain name
    NAME%+   a directory that holds the rest of a component too long for one name
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

# File systems allow 255 bytes; a suffix of ours must fit too.
_MAX_NAME_BYTES: Final = 240
OBJECT_SUFFIX: Final = "%"
DIRECTORY_SUFFIX: Final = "%d"
MORE_SUFFIX: Final = "%+"
_UNSAFE: Final = re.compile("[%\x00-\x1f\x7f\ud800-\udfff\\\\]")
_EMPTY: Final = "%00"


def split_key(key: str) -> list[str]:
    """The names of a key, the last one the object's; long components take several."""
    names: list[str] = []
    for component in key.split("/"):
        pieces = _pieces(_escape(component))
        names.extend(piece + MORE_SUFFIX for piece in pieces[:-1])
        names.append(pieces[-1])
    return names


def join_names(names: list[str]) -> str | None:
    """The key that split_key made these names of (suffixes of conflicts taken off); None: none of ours."""
    components: list[str] = []
    text = ""
    for name in names:
        if name.endswith(MORE_SUFFIX):
            text += name.removesuffix(MORE_SUFFIX)
            continue
        component = _unescape(text + name)
        if component is None:
            return None
        components.append(component)
        text = ""
    return "/".join(components) if not text else None


def plain_directory(name: str) -> str:
    """A directory's name without the suffix of a conflict."""
    return name.removesuffix(DIRECTORY_SUFFIX)


def plain_object(name: str) -> str:
    """An object's name without the suffix of a conflict."""
    return name.removesuffix(OBJECT_SUFFIX)


def find_directory(parent: Path, name: str) -> list[Path]:
    """The directories that hold the keys under a name; both forms may exist."""
    return [path for path in (parent / name, parent / (name + DIRECTORY_SUFFIX)) if is_directory(path)]


def is_directory(path: Path) -> bool:
    """Whether path is a directory itself, not a link to one: links could lead outside."""
    return path.is_dir() and not path.is_symlink()


def is_object(path: Path) -> bool:
    """Whether path is a regular file itself."""
    return path.is_file() and not path.is_symlink()


def _escape(component: str) -> str:
    if component == "":
        return _EMPTY
    escaped = _UNSAFE.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass")), component
    )
    return escaped.replace(".", "%2E") if component in (".", "..") else escaped


def _unescape(name: str) -> str | None:
    if name == _EMPTY:
        return ""
    raw = os.fsencode(name)
    try:
        text = re.sub(rb"%([0-9A-F]{2})", lambda match: bytes([int(match[1], 16)]), raw).decode(
            "utf-8", "surrogatepass"
        )
    except UnicodeDecodeError:
        return None
    return text if _escape(text) == name else None


def _pieces(escaped: str) -> list[str]:
    """Cut so that each piece fits a name and no escape is cut."""
    pieces: list[str] = []
    piece = ""
    for match in re.finditer(r"%[0-9A-F]{2}|.", escaped, re.DOTALL):
        if len(os.fsencode(piece + match[0])) > _MAX_NAME_BYTES:
            pieces.append(piece)
            piece = ""
        piece += match[0]
    return [*pieces, piece]
