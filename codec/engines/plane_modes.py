"""The mode that a plane is stored in, from a sample of it. Source: docs/format.md, sections 5.2 and 5.3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..entropy import Sample, bits, histogram, huffman, is_constant, nibbles, rans
from ..types import Buffer, Level, Mode

# Exceptions of a block of m symbols that make a writer look again: more than m div this.
_SURPRISING_SHARE: Final = 64
# And those that make it give up.
_MOST_EXCEPTIONS: Final = 8191
_FEWEST_FOR_RANS_LEVELS: Final = 1024


@dataclass(frozen=True, slots=True)
class Choice:
    """estimate: bytes. is_whole: made from the whole plane.

    encode: the whole plane, with at most so many exceptions in a block of m symbols; None where there are more.
    """

    mode: Mode
    estimate: int
    is_whole: bool
    encode: Callable[[Buffer, Callable[[int], int]], bytes | None]


@dataclass(frozen=True, slots=True)
class Effort:
    """huffman: whether `balanced` may use it."""

    level: Level
    huffman: bool = True


def effort_on_base(effort: Effort) -> Effort:
    """For planes of what is left of a base: so many different symbols that rANS is smaller than Huffman, and no slower."""
    return replace(effort, huffman=False)


def choose_mode(sample: Sample, effort: Effort) -> Choice:
    """A slower mode must gain more than a part of the plane's n bytes over a quicker one."""
    n = sample.n
    is_whole = sample.total == n
    best = Choice(Mode.RAW, n, is_whole, lambda plane, most: None)
    few_bits = bits.fit(sample)
    if (estimate := few_bits.estimate(sample)) < best.estimate:
        best = Choice(Mode.BITS, estimate, is_whole, few_bits.encode)
    if effort.level is Level.FAST:
        window = nibbles.fit(sample)
        estimate = window.estimate(sample)
        return Choice(Mode.NIBBLES, estimate, is_whole, window.encode) if estimate + n // 64 < best.estimate else best
    promised = rans.promise(sample)
    if promised + n // (512 if effort.level is Level.SMALL else 128) >= best.estimate:
        return best
    if effort.level is Level.BALANCED and effort.huffman and (tree := huffman.fit(sample)) is not None:
        estimate = tree.estimate(sample)
        if estimate + n // 128 < best.estimate and estimate <= promised + n // 32:
            return Choice(Mode.HUFFMAN, estimate, is_whole, tree.encode)
    return Choice(Mode.RANS, promised, is_whole, lambda plane, most: rans.encode(plane))


def encode_plane(plane: Buffer, choice: Choice, effort: Effort) -> tuple[Mode, Buffer]:
    """Mode and stored bytes; chosen again from the whole plane where it is not what the sample promised."""
    if choice.mode is Mode.RAW:
        return Mode.RAW, plane
    most = (lambda m: _MOST_EXCEPTIONS) if choice.is_whole else (lambda m: m // _SURPRISING_SHARE)
    mode, stored = (
        (Mode.CONSTANT, bytes(plane[:1])) if is_constant(plane) else (choice.mode, choice.encode(plane, most))
    )
    if stored is not None and len(stored) < len(plane):
        return mode, stored
    if choice.is_whole:
        return Mode.RAW, plane
    return encode_plane(plane, choose_mode(Sample(histogram(plane), len(plane)), effort), effort)


def encode_level_planes(planes: Sequence[Buffer]) -> list[tuple[Mode, Buffer]]:
    """For rows and columns: constant, rANS or raw."""
    worth_rans = min(map(len, planes), default=0) >= _FEWEST_FOR_RANS_LEVELS
    return [_encode_level_plane(plane, worth_rans) for plane in planes]


def _encode_level_plane(plane: Buffer, worth_rans: bool) -> tuple[Mode, Buffer]:
    if is_constant(plane):
        return Mode.CONSTANT, bytes(plane[:1])
    n = len(plane)
    if worth_rans and rans.promise(Sample(histogram(plane), n)) <= 15 * n // 16:
        stored = rans.encode(plane)
        if len(stored) < n:
            return Mode.RANS, stored
    return Mode.RAW, plane
