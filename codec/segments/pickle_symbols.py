"""What a pickle's opcodes are turned into instead of objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

MARK: Final = object()
# More elements than any storage has; it also bounds what arithmetic on sizes may cost.
MAX_SIZE: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Global:
    """A name that unpickling would import."""

    module: str
    name: str


@dataclass(slots=True, eq=False)
class Items:
    """A dict; its keys need not be hashable here. source: pairs that it was made from, as Python 2 pickled an OrderedDict."""

    pairs: list[tuple[object, object]] = field(default_factory=list)
    source: list[object] | None = None

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
    """A persistent id of torch: ('storage', type, key, location, numel), in legacy files with a view behind it.

    numel: bytes for UntypedStorage.
    """

    storage_type: str
    key: str
    numel: int

    @classmethod
    def of(cls, value: object) -> object:
        """The storage that a persistent id names, or None."""
        if not isinstance(value, tuple) or len(value) not in (5, 6) or value[0] != "storage":
            return None
        storage_type, key, _, numel = value[1:5]
        if not isinstance(storage_type, Global) or not isinstance(key, str) or type(numel) is not int:
            return None
        if not 0 <= numel < MAX_SIZE:
            return None
        return cls(storage_type.name, key, numel)
