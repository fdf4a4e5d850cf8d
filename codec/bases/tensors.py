"""The tensors of a base, out of the segment table of its index."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from ..types import ElementType


@dataclass(frozen=True, slots=True)
class Tensor:
    """A segment of a base, with or without a type. start, length: logical bytes."""

    start: int
    length: int
    element: ElementType
    name: str | None


class BaseTable:
    """number: of the container's bases, from 1. size: logical bytes. tensors: in order of start."""

    def __init__(self, number: int, size: int, tensors: Iterable[Tensor]) -> None:
        self.number = number
        self.size = size
        self.tensors = tuple(tensors)
        self._starts = [one.start for one in self.tensors]

    @classmethod
    def of_rows(cls, number: int, size: int, rows: Any) -> Self:
        """rows: `segments` of an index, of which nobody has checked anything; what is no row of a tensor is left out."""
        return cls(number, size, _read_rows(rows if isinstance(rows, list) else []))

    def at(self, start: int) -> Tensor | None:
        """The tensor that byte lies in."""
        place = bisect_right(self._starts, start) - 1
        if place < 0:
            return None
        found = self.tensors[place]
        return found if start < found.start + found.length else None


def _read_rows(rows: list[Any]) -> Iterable[Tensor]:
    end = 0
    for row in rows:
        match row:
            case [int(start), int(length), str(element), None | str() as name, *_] if start >= end and length >= 0:
                if element in ElementType.__members__:
                    yield Tensor(start, length, ElementType[element], name)
                    end = start + length
            case _:
                pass
