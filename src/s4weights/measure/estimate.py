"""What would be saved, from samples: the codec itself on some pieces of every component, and how far that may be off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from s4weights.codec.engines import Engine
from s4weights.codec.errors import ConfigError
from s4weights.codec.limits import FRAME_BYTES
from s4weights.codec.types import ElementType, Kind

from .bootstrap import REPLICATES, Floats, deviations, interval
from .choose import draw, is_enough, shares
from .components import Component, Piece, find_components
from .ours import container_overhead, stored_size
from .outline import Outline, outline
from .sources import Source

SAMPLE_BYTES: Final = 64 << 20
"""About what is read of tensors; for more than a TB, so much a TB."""
# With fewer the range misses the truth too often where few tensors differ much from the rest: measured on a model of 3.6
# million parameters after 8 steps, whose embedding is mostly zeros in m and v (16 MiB: 17 of 40 held it; 32 MiB: 40 of 40).
MIN_SAMPLE_BYTES: Final = 32 << 20
_TERABYTE: Final = 10**12
# Two or three requests each, some of them at once; what is smaller than these seldom matters.
MAX_BODIES: Final = 2000
_READERS: Final = 8
# Saving less than this is saving nothing: the proxy stores such a body as it came.
MIN_GAIN: Final = 0.01
# The more shapes are told apart the better, as far as the samples go.
_SHAPES: Final = (8, 4, 2, 1)
# What the samples do not show: frames that run on from one small tensor into the next, the index's own compression.
_MODEL_SHARE: Final = 0.001

NOT_RECOGNISED: Final = "not recognised"
ALREADY_PACKED: Final = "already packed"
NOT_LOOKED_AT: Final = "not looked at"


@dataclass(frozen=True, slots=True)
class Row:
    """One component, or the bodies that stay as they are. low, high: bounds of the stored bytes.

    sampled: pieces that were encoded; pieces: how many there are. bodies: of those that stay.
    """

    component: str
    element: str
    logical_bytes: int
    stored_bytes: int
    low: int
    high: int
    sampled: int = 0
    pieces: int = 0
    bodies: int = 0

    @property
    def saved_bytes(self) -> int:
        """What would no longer be stored."""
        return self.logical_bytes - self.stored_bytes

    @property
    def gains(self) -> bool:
        """Whether it is worth it."""
        return self.saved_bytes >= max(1, MIN_GAIN * self.logical_bytes)


@dataclass(frozen=True, slots=True)
class Estimate:
    """rows: components first, then what stays. total: all of it. read_bytes: what was read to say so."""

    rows: list[Row]
    total: Row
    bodies: int
    read_bytes: int
    engine: str


@dataclass(slots=True)
class _Sampled:
    """Tensors of one role, type and shape: what they take, and by how much that may be off, replicate by replicate."""

    component: Component
    stored_bytes: float
    errors: Floats
    pieces: int = 0
    freedom: int = 0


def estimate(
    sources: Sequence[Source],
    engine: Engine,
    advance: Callable[[int], None] = lambda _: None,
    *,
    sample_bytes: int = SAMPLE_BYTES,
    seed: int = 0,
) -> Estimate:
    """Look at all bodies, the MAX_BODIES largest where there are more. advance: told a body's bytes when it was looked at.

    Raises: OSError; ConfigError where sample_bytes are fewer than MIN_SAMPLE_BYTES.
    """
    if sample_bytes < MIN_SAMPLE_BYTES:
        raise ConfigError(f"samples: expected at least {MIN_SAMPLE_BYTES} bytes, found {sample_bytes}")
    looked_at = sorted(sources, key=lambda source: -source.size)[:MAX_BODIES]
    outlines: list[tuple[Source, Outline]] = []
    with ThreadPoolExecutor(_READERS) as pool:
        for source, about in zip(looked_at, pool.map(outline, looked_at), strict=True):
            outlines.append((source, about))
            advance(source.size)
    total_bytes = sum(source.size for source in sources)
    limit = round(sample_bytes * max(1.0, total_bytes / _TERABYTE))
    strata = next(
        (found for shapes in _SHAPES if is_enough(found := find_components(outlines, shapes=shapes), limit)),
        find_components(outlines),
    )
    rng = np.random.default_rng(seed)
    sampled = [
        _sample(component, count, engine, rng) for component, count in zip(strata, shares(strata, limit), strict=True)
    ]
    rows = _rows(sampled) + _unchanged(outlines)
    if skipped := len(sources) - len(looked_at):
        rest = total_bytes - sum(source.size for source in looked_at)
        rows.append(_same(NOT_LOOKED_AT, rest, skipped))
    overhead = sum(_overhead(about) for _, about in outlines if about.segments)
    return Estimate(
        rows,
        _summed("all", "", sampled, sum(row.logical_bytes for row in rows if not row.pieces), overhead),
        len(sources),
        sum(source.read_bytes for source in sources),
        engine.name,
    )


def _sample(component: Component, count: int, engine: Engine, rng: np.random.Generator) -> _Sampled:
    pieces = draw(component, count, rng) if count else []
    stored: dict[tuple[int, int, int], int] = {}
    for piece in pieces:
        if _key(piece) not in stored:
            stored[_key(piece)] = min(piece.length, stored_size(piece.read(), piece.segments, engine))
    if count >= component.pieces:
        return _Sampled(component, sum(stored.values()), np.zeros(REPLICATES), count)
    logical = component.logical_bytes
    if not pieces:
        return _Sampled(component, logical, np.zeros(REPLICATES))
    found = np.array([stored[_key(piece)] / piece.length for piece in pieces])
    seen = sum(length for _, _, length in stored)
    errors = deviations(found, 1.0 - seen / logical, rng) * logical
    return _Sampled(component, float(found.mean()) * logical, errors, len(stored), len(found) - 1)


def _key(piece: Piece) -> tuple[int, int, int]:
    return id(piece.run.source), piece.run.start + piece.offset, piece.length


def _rows(sampled: Sequence[_Sampled]) -> list[Row]:
    groups: dict[tuple[str, str], list[_Sampled]] = {}
    for one in sampled:
        element = one.component.element
        name = "" if element is ElementType.BYTES else element.name
        groups.setdefault((one.component.role, name), []).append(one)
    return [_summed(role, element, strata) for (role, element), strata in groups.items()]


def _summed(label: str, element: str, strata: Sequence[_Sampled], same: int = 0, overhead: int = 0) -> Row:
    """One row of several strata. same: bytes that stay as they are beside them. overhead: what containers add."""
    logical = sum(one.component.logical_bytes for one in strata) + same
    coded = sum(one.stored_bytes for one in strata if one.pieces)
    stored = min(sum(one.stored_bytes for one in strata) + same + overhead, logical)
    errors = sum((one.errors for one in strata), np.zeros(REPLICATES))
    low, high = interval(errors, sum(one.freedom for one in strata))
    slack = _MODEL_SHARE * coded + overhead / 2
    return Row(
        label,
        element,
        logical,
        round(stored),
        max(0, round(stored + low - slack)),
        min(logical, round(stored + high + slack)),
        sum(one.pieces for one in strata),
        sum(one.component.pieces for one in strata),
    )


def _unchanged(outlines: Sequence[tuple[Source, Outline]]) -> list[Row]:
    """Bodies, and ends of bodies, that count as they are."""
    rows = []
    unknown = [source.size for source, about in outlines if about.kind is Kind.UNKNOWN]
    if unknown:
        rows.append(_same(NOT_RECOGNISED, sum(unknown), len(unknown)))
    packed = [source.size for source, about in outlines if about.kind is Kind.CONTAINER]
    if packed:
        rows.append(_same(ALREADY_PACKED, sum(packed), len(packed)))
    rest = [source.size - about.known_bytes for source, about in outlines if about.segments]
    if any(rest):
        rows.append(_same(NOT_LOOKED_AT, sum(rest), sum(map(bool, rest))))
    return rows


def _same(label: str, size: int, bodies: int) -> Row:
    return Row(label, "", size, size, size, size, bodies=bodies)


def _overhead(about: Outline) -> int:
    """Of one container, beside its frames."""
    frames = len(about.segments) + about.known_bytes // FRAME_BYTES
    return container_overhead(frames, len(about.segments))
