"""What is measured: something that encodes and decodes the same bytes again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

from s4weights.codec.errors import S4WeightsError

ENCODE: Final = "encode"
VERIFIED: Final = "encode, verified"
DECODE: Final = "decode"
COPY: Final = "copy"
# The kernels alone: no hashes, no frame header.
ENGINE_VERIFIED: Final = "encode, verified, engine"
ENGINE_DECODE: Final = "decode, engine"

T = TypeVar("T")

Step: TypeAlias = Callable[[], list[float]]
"""Does its work once, on every unit (a frame or a block) in order; returns the seconds that each took."""


class CandidateFailed(S4WeightsError):
    """A candidate that cannot go on: it raised, or its process ended."""


class Candidate(Protocol):
    """One way to store one component. Construction encodes once, so that buffers are warm and outputs are there."""

    @property
    def steps(self) -> Mapping[str, Step]:
        """In the order in which they are measured."""
        ...

    def stored_bytes(self) -> int:
        """What its output takes."""
        ...

    def is_identical(self) -> bool:
        """Decode the output and compare every byte."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


Maker: TypeAlias = Callable[[], Candidate]
"""Raises what the candidate raises: a library may raise anything."""


def timed(work: Callable[[], object]) -> float:
    """Seconds that a piece of work takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def timed_each(work: Callable[[T], object], units: Iterable[T]) -> list[float]:
    """Seconds that it takes on each unit."""
    return [timed(lambda unit=unit: work(unit)) for unit in units]  # type: ignore[misc]
