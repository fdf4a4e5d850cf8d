"""The codec and its peers on the tensors of one body."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from s4weights.codec.engines import Engine
from s4weights.codec.errors import ConfigError
from s4weights.codec.limits import FRAME_BYTES, MIN_TENSOR_FRAME_BYTES
from s4weights.codec.types import Frame

from .blocks import reuse_buffers
from .choose import shares, spread
from .components import SMALL, Component, find_components
from .ours import LEVELS, frames_of
from .outline import outline
from .peers import PEERS
from .rounds import Result, measure, sum_up
from .sources import Source
from .synthetic import SyntheticSource


@dataclass(slots=True)
class Chosen:
    """What is measured: the frames of each component. bytes: of them all. left_out: components that had no room."""

    name: str
    is_synthetic: bool
    source_bytes: int
    parts: list[tuple[Component, list[Frame]]] = field(default_factory=list)
    bytes: int = 0
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Benched:
    """results: a component and candidate each. total: a candidate each, over all components where there are several."""

    chosen: Chosen
    results: list[Result]
    total: list[Result]


def pick(source: Source, max_bytes: int) -> Chosen:
    """Read the large tensors, or pieces spread over them where they are more than max_bytes.

    Raises: ConfigError where there is none; OSError.
    """
    about = outline(source)
    components = [one for one in find_components([(source, about)]) if one.role != SMALL]
    if not components:
        raise ConfigError(
            f"{source.name}: expected a checkpoint with a tensor of at least {MIN_TENSOR_FRAME_BYTES} bytes, "
            f"found none (recognised as: {about.kind.value})"
        )
    if max_bytes < FRAME_BYTES:
        raise ConfigError(f"--max-bytes: expected at least {FRAME_BYTES}, found {max_bytes}")
    chosen = Chosen(source.name, isinstance(source, SyntheticSource), source.size)
    for component, count in zip(components, shares(components, max_bytes), strict=True):
        frames: list[Frame] = []
        # One piece says enough of speed; the limit holds whatever was drawn.
        for piece in spread(component, max(count, 1)):
            if chosen.bytes + piece.length <= max_bytes:
                frames += frames_of(piece.read(), piece.segments)
                chosen.bytes += piece.length
        if frames:
            chosen.parts.append((component, frames))
        else:
            chosen.left_out.append(f"{component.role} {component.element.name}")
    return chosen


def bench(
    chosen: Chosen,
    engine: Engine,
    runs: int,
    advance: Callable[[int], None] = lambda _: None,
    *,
    levels: Sequence[str] = LEVELS,
    peers: Collection[str] = PEERS,
) -> Benched:
    """Measure every component. advance: told the bytes that a round went through."""
    reuse_buffers()
    results: list[Result] = []
    for component, frames in chosen.parts:
        results += measure(component.role, component.element, frames, engine, runs, advance, levels=levels, peers=peers)
    return Benched(chosen, results, sum_up(results) if len(chosen.parts) > 1 else [])
