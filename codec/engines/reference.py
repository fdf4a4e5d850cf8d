"""The oracle: numpy, slow, easy to read."""

from __future__ import annotations

import numpy as np

from .. import levels
from ..errors import UnsupportedVersion
from ..planes import join_planes, split_planes
from ..types import NO_GRID, Buffer, ElementType, Grid, Layout, Level, Mode, Predictor
from .interface import EncodedPayload
from .payload import (
    DESCRIPTOR_BYTES,
    better_untyped,
    check_layout,
    decode_named,
    decode_untyped,
    encode_untyped,
    join_payload,
    raw_payload,
    read_planes,
)
from .plan import Plan, make_plan
from .plane_modes import Effort, encode_level_planes, encode_plane


class ReferenceEngine:
    """What every other engine must equal."""

    name = "reference"

    def __init__(self, *, huffman: bool = True) -> None:
        """huffman: False writes rANS instead, as a GPU does."""
        self._huffman = huffman

    def encode(
        self, data: Buffer, element: ElementType, *, grid: Grid = NO_GRID, level: Level = Level.BALANCED
    ) -> EncodedPayload:
        """See Engine."""
        if element is ElementType.BYTES:
            return encode_untyped(data, level)
        effort = Effort(level, self._huffman)
        coded = _encode_planned(data, element, make_plan(data, element, grid, effort), effort)
        return better_untyped(coded, data, element, level)

    def decode(
        self,
        payload: Buffer,
        element: ElementType,
        predictor: Predictor,
        layout: Layout,
        planes: int,
        logical_bytes: int,
    ) -> bytes:
        """See Engine."""
        check_layout(element, predictor, layout, planes, logical_bytes)
        if element is ElementType.BYTES:
            return decode_untyped(payload, logical_bytes)
        n = logical_bytes // element.width
        if predictor is Predictor.NONE:
            return join_planes(_decode_planes(payload, [n] * planes, names=_names(planes)), element, layout)
        head = levels.read_head(payload, n)
        sizes = head.plane_sizes(n)
        names = ["rows", "columns"] if sizes else []
        found = _decode_planes(payload, sizes + [n] * planes, names=names + _names(planes), at=levels.HEAD_BYTES)
        used = levels.read_levels(head, found[: len(sizes)])
        rest = join_planes(found[len(sizes) :], element, layout)
        return levels.add(rest, element, used.predict(element, np.arange(n)))

    def decodes_to(self, coded: EncodedPayload, data: Buffer) -> bool:
        """See Engine."""
        decoded = self.decode(coded.payload, coded.element, coded.predictor, coded.layout, coded.planes, len(data))
        return decoded == data


def _encode_planned(data: Buffer, element: ElementType, plan: Plan, effort: Effort) -> EncodedPayload:
    head, level_planes, predictor = b"", [], Predictor.NONE
    rest = data
    if plan.levels is not None:
        predictor = Predictor.LEVELS
        head, level_planes = plan.levels.head(), plan.levels.planes()
        predicted = plan.levels.predict(element, np.arange(len(data) // element.width))
        rest = levels.subtract(data, element, predicted)
    planes = split_planes(rest, element, plan.layout)
    coded = [encode_plane(plane, choice, effort) for plane, choice in zip(planes, plan.choices, strict=True)]
    payload = join_payload(head, [*encode_level_planes(level_planes), *coded])
    if len(payload) >= len(data):
        return raw_payload(data, element)
    return EncodedPayload(element, predictor, plan.layout, tuple(mode for mode, _ in coded), payload)


def _names(planes: int) -> list[str]:
    return [f"plane {k}" for k in range(planes)]


def _decode_planes(payload: Buffer, sizes: list[int], names: list[str], at: int = 0) -> list[Buffer]:
    """sizes, names: of every plane, in the order of their descriptors, which begin at payload byte `at`."""
    found = []
    start = at + len(sizes) * DESCRIPTOR_BYTES
    for name, n, (mode, stored) in zip(names, sizes, read_planes(payload, len(sizes), at), strict=True):
        where = f"{name} at payload byte {start}"
        if mode is Mode.ZSTD:
            raise UnsupportedVersion(f"{where}: expected a mode for elements with a type, found zstd")
        found.append(decode_named(mode, stored, n, where))
        start += len(stored)
    return found
