"""The oracle: numpy, slow, easy to read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import levels, prediction
from ..container import REFERENCE_BYTES
from ..errors import UnsupportedVersion
from ..planes import join_planes, split_planes
from ..types import NO_GRID, Base, Buffer, ElementType, Grid, Layout, Level, Mode, Predictor
from .interface import EncodedPayload
from .payload import (
    DESCRIPTOR_BYTES,
    base_predictors,
    better_untyped,
    check_base,
    check_layout,
    decode_named,
    decode_untyped,
    encode_untyped,
    join_payload,
    raw_payload,
    read_planes,
    same_as_base,
)
from .plan import Plan, make_plan
from .plane_modes import Effort, effort_on_base, encode_level_planes, encode_plane


class ReferenceEngine:
    """What every other engine must equal."""

    name = "reference"

    def __init__(self, *, huffman: bool = True) -> None:
        """huffman: False writes rANS instead, as a GPU does."""
        self._huffman = huffman

    def encode(
        self,
        data: Buffer,
        element: ElementType,
        *,
        grid: Grid = NO_GRID,
        level: Level = Level.BALANCED,
        bases: Sequence[Base] = (),
    ) -> EncodedPayload:
        """See Engine."""
        if element is ElementType.BYTES:
            return encode_untyped(data, level, bases)
        if (same := _find_same(data, element, bases)) is not None:
            return same
        effort = Effort(level, self._huffman)
        coded = _encode_planned(data, element, make_plan(data, element, grid, effort, bases), effort, bases)
        return better_untyped(coded, data, element, level)

    def decode(
        self,
        payload: Buffer,
        element: ElementType,
        predictor: Predictor,
        layout: Layout,
        planes: int,
        logical_bytes: int,
        base: Buffer | None = None,
    ) -> bytes:
        """See Engine."""
        check_layout(element, predictor, layout, planes, logical_bytes)
        check_base(predictor, logical_bytes, base)
        if layout is Layout.RAW and base is not None:
            return prediction.predict(element, predictor, base)
        if element is ElementType.BYTES:
            return decode_untyped(payload, logical_bytes, base)
        n = logical_bytes // element.width
        if predictor is not Predictor.LEVELS:
            rest = join_planes(_decode_planes(payload, [n] * planes, names=_names(planes)), element, layout)
            return rest if base is None else prediction.add(rest, element, predictor, base)
        head = levels.read_head(payload, n)
        sizes = head.plane_sizes(n)
        names = ["rows", "columns"] if sizes else []
        found = _decode_planes(payload, sizes + [n] * planes, names=names + _names(planes), at=levels.HEAD_BYTES)
        used = levels.read_levels(head, found[: len(sizes)])
        rest = join_planes(found[len(sizes) :], element, layout)
        return levels.add(rest, element, used.predict(element, np.arange(n)))

    def decodes_to(self, coded: EncodedPayload, data: Buffer, base: Buffer | None = None) -> bool:
        """See Engine."""
        decoded = self.decode(
            coded.payload, coded.element, coded.predictor, coded.layout, coded.planes, len(data), base
        )
        return decoded == data


def _find_same(data: Buffer, element: ElementType, bases: Sequence[Base]) -> EncodedPayload | None:
    """The first base that predicts the frame as it is."""
    if len(data) <= REFERENCE_BYTES:
        return None
    for number, base in enumerate(bases):
        for predictor in base_predictors(element, base.kind):
            if predictor.is_frame and prediction.predict(element, predictor, base.data) == data:
                return same_as_base(element, predictor, number)
    return None


def _encode_planned(
    data: Buffer, element: ElementType, plan: Plan, effort: Effort, bases: Sequence[Base]
) -> EncodedPayload:
    head, level_planes = b"", []
    rest = data
    if plan.base is not None:
        rest = prediction.subtract(data, element, plan.predictor, bases[plan.base].data)
    if plan.levels is not None:
        head, level_planes = plan.levels.head(), plan.levels.planes()
        predicted = plan.levels.predict(element, np.arange(len(data) // element.width))
        rest = levels.subtract(data, element, predicted)
    planes = split_planes(rest, element, plan.layout)
    used_effort = effort if plan.base is None else effort_on_base(effort)
    coded = [encode_plane(plane, choice, used_effort) for plane, choice in zip(planes, plan.choices, strict=True)]
    payload = join_payload(head, [*encode_level_planes(level_planes), *coded])
    modes = tuple(mode for mode, _ in coded)
    found = EncodedPayload(element, plan.predictor, plan.layout, modes, payload, plan.base)
    return found if found.stored_bytes < len(data) else raw_payload(data, element)


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
