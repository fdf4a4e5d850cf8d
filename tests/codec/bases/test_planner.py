"""Which ranges frames are offered: by name, by order, by offset, twins; what does not gain is offered seldom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from s4weights.codec.bases import FRAMES_AHEAD, BasePlanner, BaseTable, Tensor
from s4weights.codec.bases.twins import Twins
from s4weights.codec.encode import Encoder
from s4weights.codec.errors import S4WeightsError
from s4weights.codec.limits import FRAME_BYTES
from s4weights.codec.prediction import narrow
from s4weights.codec.types import BaseKind, BaseRange, ElementType, EncodedFrame, Frame, Reference, Segment
from tests.codec.samples import normal, safetensors_raw, torch_file

WIDTHS = {"F32": 4, "BF16": 2, "I64": 8, "U8": 1}


def body(*tensors: tuple[str, str, bytes]) -> bytes:
    """A safetensors file of these: name, type, data."""
    header, data = {}, b""
    for name, dtype, octets in tensors:
        shape = [len(octets) // WIDTHS[dtype]]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(octets)]}
        data += octets
    return safetensors_raw(header, data)


def frames_of(data: bytes) -> list[Frame]:
    encoder = Encoder()
    return encoder.plan(data) + encoder.plan_end()


def table_of(data: bytes, number: int = 1) -> BaseTable:
    encoder = Encoder()
    encoder.plan(data)
    encoder.plan_end()
    return BaseTable.of_rows(number, len(data), encoder.segments)


def encoded(frame: Frame, taken: Reference | None = None) -> EncodedFrame:
    return EncodedFrame(frame.start, frame.element, len(frame.data), b"", b"", (), base=taken)


def offers(planner: BasePlanner, data: bytes, *, take: bool = True) -> dict[str, list[BaseRange]]:
    """By name of the first tensor in each frame with a type; take: whether each frame takes the first that it is offered."""
    found: dict[str, list[BaseRange]] = {}
    for frame in frames_of(data):
        got = planner.offers(frame)
        planner.added(encoded(frame, got[0].reference if got and take else None))
        if frame.element.name != "BYTES":
            found.setdefault(frame.segments[0].name or "", []).extend(got)
    return found


def start_of(data: bytes, part: bytes) -> int:
    place = data.find(part)
    assert place >= 0
    return place


A, B, C = (normal(60_000, "f32", seed=seed) for seed in range(3))


def test_a_tensor_is_found_by_its_name_wherever_it_lies():
    old = body(("b", "F32", B), ("a", "F32", A))
    found = offers(BasePlanner([table_of(old)]), body(("a", "F32", C), ("b", "F32", A)))
    assert found["a"] == [BaseRange(Reference(1, start_of(old, A)), BaseKind.SAME, len(A))]
    assert found["b"] == [BaseRange(Reference(1, start_of(old, B)), BaseKind.SAME, len(B))]


def test_a_renamed_tensor_is_found_by_order_and_length():
    old = body(("x", "F32", A), ("short", "F32", C[:80_000]), ("y", "F32", B))
    found = offers(BasePlanner([table_of(old)]), body(("model.x", "F32", B), ("model.y", "F32", C), ("z", "F32", A)))
    assert [one[0].reference.start for one in (found["model.x"], found["model.y"])] == [
        start_of(old, A),
        start_of(old, B),
    ]
    assert found["z"] == []


def test_a_tensor_of_the_other_precision_is_found_by_its_name():
    old = body(("a", "F32", A), ("b", "BF16", narrow(B)))
    new = body(("a", "BF16", narrow(C)), ("b", "F32", A))
    found = offers(BasePlanner([table_of(old)]), new)
    assert found["a"] == [BaseRange(Reference(1, start_of(old, A)), BaseKind.WIDER, len(A))]
    assert found["b"] == [BaseRange(Reference(1, start_of(old, narrow(B))), BaseKind.NARROWER, len(B) // 2)]


def test_frames_of_a_long_tensor_are_offered_their_own_part():
    long, other = normal(700_000, "f32", seed=4), normal(700_000, "f32", seed=5)
    old = body(("before", "F32", A), ("long", "F32", long))
    found = offers(BasePlanner([table_of(old)]), body(("long", "F32", other)))["long"]
    start = start_of(old, long[:100])
    assert [(one.reference.start - start, one.length) for one in found] == [
        (0, FRAME_BYTES),
        (FRAME_BYTES, FRAME_BYTES),
        (2 * FRAME_BYTES, len(long) - 2 * FRAME_BYTES),
    ]


def test_short_tensors_of_one_frame_must_lie_together_in_the_base_too():
    parts = [normal(3_000, "f32", seed=seed) for seed in range(3)]
    new = body(*((name, "F32", parts[2]) for name in "abc"))
    together = body(*(("x", "F32", B), *((name, "F32", part) for name, part in zip("abc", parts, strict=True))))
    apart = body(*((name, "F32", part) for name, part in zip("cab", parts, strict=True)))
    assert offers(BasePlanner([table_of(together)]), new)["a"] == [
        BaseRange(Reference(1, start_of(together, parts[0])), BaseKind.SAME, 36_000)
    ]
    assert offers(BasePlanner([table_of(apart)]), new)["a"] == []


@pytest.mark.parametrize("size", [None, 26_000, 26_001])
def test_bytes_without_a_type_lie_at_the_same_offset_of_a_body_as_long(size):
    data = b"some text, and no numbers " * 1_000
    # In one run there, and here in several that were announced one by one.
    table = BaseTable(1, len(data), [Tensor(0, len(data), ElementType.BYTES, None)])
    planner = BasePlanner([table], size=size)
    [frame] = frames_of(data)
    frame = replace(frame, segments=(Segment(0, 20_000), Segment(20_000, 6_000)))
    expected = () if size == 26_001 else (BaseRange(Reference(1, 0), BaseKind.SAME, len(data)),)
    assert planner.offers(frame) == expected


def test_a_table_of_anything_but_tensors_is_empty():
    rows = [
        None,
        [0],
        [5, 10, "F32", "a", [2]],
        [0, 4, "F32", "b", [1]],
        [20, 4, "F99", "c", [1]],
        [16, -1, "F32", "d", []],
    ]
    assert BaseTable.of_rows(1, 100, rows).tensors == (Tensor(5, 10, ElementType.F32, "a"),)
    assert BaseTable.of_rows(1, 100, "rows").tensors == ()


def test_no_offer_ends_behind_its_base():
    old = body(("a", "F32", A))
    cut = BaseTable(1, start_of(old, A) + len(A) - 4, table_of(old).tensors)
    assert offers(BasePlanner([cut]), body(("a", "F32", B)))["a"] == []


def test_twins_of_both_precisions_are_found_in_the_body_itself():
    data = body(("wide", "F32", A), ("narrow", "BF16", narrow(A)), ("again", "F32", A), ("other", "F32", B))
    found = offers(BasePlanner(), data)
    start = start_of(data, A)
    assert found["narrow"] == [BaseRange(Reference(0, start), BaseKind.WIDER, len(A))]
    # Never the twin in between, which needs this body itself.
    assert found["again"] == [BaseRange(Reference(0, start), BaseKind.SAME, len(A))]
    assert found["wide"] == found["other"] == []


def test_a_wide_twin_is_found_behind_a_narrow_one_in_a_torch_file():
    wide = {f"layer.{k}.weight": torch.randn(300, 50 + k) for k in range(4)}
    state = {"model": {name: one.bfloat16() for name, one in wide.items()}, "master": wide}
    found = offers(BasePlanner(), torch_file(state))
    for name, one in wide.items():
        [offer] = found[f"master.{name}"]
        assert (offer.kind, offer.length) == (BaseKind.NARROWER, 2 * one.numel())
        assert found[f"model.{name}"] == []


def test_only_parts_of_tensors_that_are_twins_are_offered_in_long_ones():
    long = normal(1_000_000, "f32", seed=7)
    data = body(("wide", "F32", long), ("narrow", "BF16", narrow(long)))
    found = offers(BasePlanner(), data)["narrow"]
    start = start_of(data, long[:100])
    assert [(one.reference.start - start, one.length) for one in found] == [
        (0, 2 * FRAME_BYTES),
        (2 * FRAME_BYTES, len(long) - 2 * FRAME_BYTES),
    ]


@pytest.mark.parametrize("values", [bytes(240_000), b"\0\0\x80\x3f" * 60_000], ids=["zeros", "ones"])
def test_constant_tensors_need_no_base(values):
    old = body(("a", "F32", A), ("b", "F32", values))
    found = offers(BasePlanner([table_of(old)]), body(("a", "F32", values), ("b", "F32", values)))
    assert found == {"a": [], "b": []}


def test_twins_within_one_frame_are_not_offered():
    short = normal(3_000, "f32")
    found = offers(BasePlanner(), body(("a", "F32", short), ("b", "F32", short)))
    assert found == {"a": []}


def test_the_table_of_twins_is_bounded():
    twins = Twins(limit=1)
    frames = frames_of(body(("a", "F32", A), ("b", "F32", B), ("c", "F32", B), ("d", "F32", A)))[1:]
    assert [twins.find(frame) is not None for frame in frames] == [False, False, False, True]


def many(count: int, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    return body(*((f"{k}.weight", "F32", rng.bytes(80_000)) for k in range(count)))


def test_what_does_not_gain_is_soon_offered_seldom_and_tried_again():
    old, new = many(300, 0), many(300, 1)
    refused = [bool(one) for one in offers(BasePlanner([table_of(old)]), new, take=False).values()]
    assert all(refused[:FRAMES_AHEAD])
    assert sum(refused[FRAMES_AHEAD + 10 :]) == pytest.approx((300 - FRAMES_AHEAD - 10) / 32, abs=1)
    taken = [bool(one) for one in offers(BasePlanner([table_of(old)]), new).values()]
    assert all(taken)


def test_what_gains_again_is_offered_again():
    old, new = many(400, 0), many(400, 1)
    planner = BasePlanner([table_of(old)])
    found = []
    for number, frame in enumerate(frames_of(new)):
        got = planner.offers(frame)
        planner.added(encoded(frame, got[0].reference if got and number > 150 else None))
        found.append(bool(got))
    assert sum(found[60:150]) < 5
    assert all(found[250:])


def test_what_is_offered_does_not_depend_on_how_many_frames_are_ahead():
    old, new = many(200, 0), many(200, 1)
    rng = np.random.default_rng(2)
    gains = rng.random(1_000) < 0.2
    found = []
    for most in (1, 7, FRAMES_AHEAD):
        planner = BasePlanner([table_of(old)])
        ahead: list[EncodedFrame] = []
        given = []
        for number, frame in enumerate(frames_of(new)):
            got = planner.offers(frame)
            given.append(got)
            ahead.append(encoded(frame, got[0].reference if got and gains[number] else None))
            while len(ahead) >= most:
                planner.added(ahead.pop(0))
        found.append(given)
    assert found[0] == found[1] == found[2]


def test_more_frames_ahead_and_frames_out_of_order_are_named():
    frames = frames_of(many(FRAMES_AHEAD + 5, 0))
    planner = BasePlanner()
    for frame in frames[:FRAMES_AHEAD]:
        planner.offers(frame)
    with pytest.raises(S4WeightsError, match="frames ahead"):
        planner.offers(frames[FRAMES_AHEAD])
    with pytest.raises(S4WeightsError, match="expected the frame at logical byte 0"):
        planner.added(encoded(frames[1]))
