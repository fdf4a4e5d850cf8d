"""What a setting means, in the strings below the fields of Settings, and how a value is shown: for command and document."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from .config import Settings

_MIB = 1 << 20


def meanings() -> dict[str, str]:
    """By name: the string below each field, on one line."""
    [declared] = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(declared, ast.ClassDef)
    found: dict[str, str] = {}
    for one, below in zip(declared.body, declared.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and isinstance(below, ast.Expr):
            assert isinstance(below.value, ast.Constant)
            found[one.target.id] = " ".join(str(below.value.value).split())
    return found


def shown(value: Any) -> str:
    """As a setting may be written; empty where there is none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value >= _MIB and value % _MIB == 0:
        return f"{value // _MIB}MiB"
    return ",".join(value) if isinstance(value, tuple) else str(value)
