"""Tensors of the same role and type, over all bodies, and the pieces that they are measured in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Self

from s4weights.codec.limits import FRAME_BYTES, MIN_TENSOR_FRAME_BYTES
from s4weights.codec.types import ElementType, Segment

from .outline import Outline
from .sources import Source

SMALL: Final = "headers and small tensors"
WEIGHTS: Final = "model weights"
OTHER: Final = "other"
# The first that occurs in a tensor's name. Names: torch.optim, DeepSpeed, Megatron, FSDP.
_ROLES: Final = (
    ("exp_avg_sq", "optimizer v"),
    ("exp_avg", "optimizer m"),
    ("momentum", "optimizer m"),
    ("master", "master weights"),
    ("fp32_flat", "master weights"),
    ("of_fp32_groups", "master weights"),
    ("fp32_from_f", "master weights"),
    ("main_param", "master weights"),
    ("optim", OTHER),
)
_FLOATS: Final = frozenset(
    {ElementType.BF16, ElementType.F16, ElementType.F32, ElementType.F64, ElementType.F8_E4M3, ElementType.F8_E5M2}
)


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes of one body that are cut into pieces together: a large tensor, or what lies between two of them.

    segments: what it is made of; they tile it.
    """

    source: Source
    start: int
    length: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a run, as long as a frame at most; offset: within the run."""

    run: Run
    offset: int
    length: int

    def read(self) -> bytes:
        """Its bytes. Raises: OSError."""
        return self.run.source.read(self.run.start + self.offset, self.length)

    @property
    def segments(self) -> list[Segment]:
        """What it is made of, counted from its own first byte: the first may begin before it, the last end behind it."""
        first = self.run.start + self.offset
        return [
            Segment(one.start - first, one.length, one.element, one.name, one.shape)
            for one in self.run.segments
            if one.end > first and one.start < first + self.length
        ]


@dataclass(slots=True)
class Component:
    """role, element: what its tensors have in common; element BYTES where they are of several types."""

    role: str
    element: ElementType
    runs: list[Run] = field(default_factory=list)
    logical_bytes: int = 0
    pieces: int = 0
    _squares: int = 0
    _starts: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, role: str, element: ElementType, runs: Iterable[Run]) -> Self:
        """With these runs."""
        component = cls(role, element)
        for run in runs:
            component._add(run)
        return component

    def _add(self, run: Run) -> None:
        self._starts.append(self.logical_bytes)
        self.runs.append(run)
        self.logical_bytes += run.length
        whole, rest = divmod(run.length, FRAME_BYTES)
        self.pieces += whole + bool(rest)
        self._squares += whole * FRAME_BYTES**2 + rest**2

    @property
    def drawn_bytes(self) -> float:
        """The length to expect of the piece that holds a random byte."""
        return self._squares / self.logical_bytes

    def piece_at(self, offset: int) -> Piece:
        """The piece that holds a byte; offset: counted through all runs."""
        number = bisect_right(self._starts, offset) - 1
        run = self.runs[number]
        start = (offset - self._starts[number]) // FRAME_BYTES * FRAME_BYTES
        return Piece(run, start, min(FRAME_BYTES, run.length - start))

    def all_pieces(self) -> Iterator[Piece]:
        """Every one, in order."""
        for run in self.runs:
            for start in range(0, run.length, FRAME_BYTES):
                yield Piece(run, start, min(FRAME_BYTES, run.length - start))


def find_components(bodies: Iterable[tuple[Source, Outline]], *, shapes: int = 0) -> list[Component]:
    """The components of all bodies together, the largest first.

    shapes: so many shapes of each role and type, those with the most bytes, are components of their own, and all others are
    one: what is rare, such as an embedding among layers, is then not missed by who looks at a few pieces of everything.
    """
    found: dict[tuple[str, ElementType], dict[object, list[Run]]] = {}
    for source, about in bodies:
        for run in _runs(source, about):
            only = run.segments[0]
            key = (role_of(only), only.element) if _is_large(only) else (SMALL, ElementType.BYTES)
            shape = (only.shape or only.length) if shapes and _is_large(only) else None
            found.setdefault(key, {}).setdefault(shape, []).append(run)
    components = []
    for key, by_shape in found.items():
        runs = sorted(by_shape.values(), key=lambda one: -sum(run.length for run in one))
        groups = [*runs[:shapes], [run for one in runs[shapes:] for run in one]]
        components += [Component.of(*key, group) for group in groups if group]
    return sorted(components, key=lambda one: -one.logical_bytes)


def role_of(tensor: Segment) -> str:
    """What a tensor is for, as far as its name and type tell."""
    name = (tensor.name or "").lower()
    for part, role in _ROLES:
        if part in name:
            return role if tensor.element in _FLOATS else OTHER
    return WEIGHTS if tensor.element in _FLOATS else OTHER


def _runs(source: Source, about: Outline) -> Iterator[Run]:
    clipped = (_clip(segment, about.known_bytes) for segment in about.segments)
    # A large tensor stands alone, whatever lies beside it.
    numbered = enumerate(segment for segment in clipped if segment.length)
    for _, group in groupby(numbered, key=lambda pair: pair[0] if _is_large(pair[1]) else -1):
        segments = tuple(segment for _, segment in group)
        start = segments[0].start
        yield Run(source, start, segments[-1].end - start, segments)


def _clip(segment: Segment, end: int) -> Segment:
    length = max(0, min(segment.length, end - segment.start))
    return Segment(segment.start, length, segment.element, segment.name, segment.shape)


def _is_large(segment: Segment) -> bool:
    return segment.element is not ElementType.BYTES and segment.length >= MIN_TENSOR_FRAME_BYTES
