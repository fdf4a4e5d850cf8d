"""Whole payloads: both instruction sets the same, damage, verification, many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from s4weights.codec import _native
from s4weights.codec.types import NO_GRID, BaseKind, ElementType, Grid, Mode, Predictor
from tests.codec.engines.bodies import FLOATS, TYPED, moments, symbols, weights
from tests.native.payloads import (
    EXAMPLES,
    INSTRUCTION_SETS,
    LEVELS,
    Coded,
    as_coded,
    coded,
    encode,
    exact_moments,
    pair,
    two_blocks_of_bells,
    using,
)


def sample(element: ElementType, count: int) -> bytes:
    return weights(count, element, count) if element.is_float else symbols(count * element.width, 0.3, count)


# Around what a vector, a group of nibbles, a row of rANS, a whole sample and a block hold.
SIZES = [1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 4_097, 16_385, 65_535, 65_537, 131_100]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("element", TYPED, ids=lambda one: one.name)
def test_both_instruction_sets_write_and_read_the_same_payloads(element, level):
    for count in SIZES:
        frame = sample(element, count)
        with using("scalar"):
            first = encode(frame, element, level)
        second = encode(frame, element, level)
        assert first == second, count
        if first is None:
            continue
        one = as_coded(frame, element, first)
        assert len(one.payload) < len(frame)
        for name in INSTRUCTION_SETS:
            with using(name):
                assert one.decode(one.payload) == frame
                assert one.is_verified(one.payload, frame)


# What a frame is predicted from, and how its elements differ from the base's.
FROM_BASE = [
    *((element, Predictor.XOR) for element in TYPED),
    *((element, Predictor.DIFFERENCE) for element in TYPED),
    (ElementType.BF16, Predictor.NARROWED),
    (ElementType.F32, Predictor.WIDENED),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("element", "predictor"), FROM_BASE, ids=lambda one: one.name)
def test_both_instruction_sets_predict_the_same_from_a_base(element, predictor, level):
    kind = predictor.base_kind
    used = set()
    for count in SIZES[2:]:
        frame, base = pair(count, element, kind, 0.2, bits=predictor is Predictor.XOR)
        found = []
        for name in INSTRUCTION_SETS:
            with using(name):
                found.append(encode(frame, element, level, bases=[(kind, base)]))
        assert found[0] == found[1], count
        if found[0] is None:
            continue
        one = as_coded(frame, element, found[0], [(kind, base)])
        used.add(one.predictor)
        for name in INSTRUCTION_SETS:
            with using(name):
                assert one.decode(one.payload) == frame
                assert one.is_verified(one.payload, frame)
    assert predictor in used


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("element", [ElementType.U8, ElementType.BF16, ElementType.I32, ElementType.F64])
def test_a_frame_that_equals_a_base_is_a_copy_of_the_first_such(element, level):
    for count in SIZES[1:]:
        frame = sample(element, count)
        other = bytes([frame[0] ^ 1]) + frame[1:-1] + bytes([frame[-1] ^ 1])
        bases = [(BaseKind.SAME, one) for one in (other, frame, frame)]
        found = encode(frame, element, level, bases=bases)
        # A reference takes 16 bytes.
        if len(frame) <= 16:
            assert found is None or found[1] is None
            continue
        assert found == (Predictor.XOR, 1, 0, [], b"")
        one = as_coded(frame, element, found, bases)
        assert one.decode(b"") == frame
        assert one.is_verified(b"", frame)
        assert not one.is_verified(b"", other)


def test_a_frame_that_is_a_rounded_base_is_a_copy_of_it(simd):
    for count in SIZES[SIZES.index(127) :]:
        frame, base = pair(count, ElementType.BF16, BaseKind.WIDER, 0)
        one = coded(frame, ElementType.BF16, bases=[(BaseKind.WIDER, base)])
        assert (one.predictor, one.layout, one.payload) == (Predictor.NARROWED, 0, b"")
        assert one.decode(b"") == frame
        for at in {0, len(frame) // 2, len(frame) - 1}:
            other = bytearray(frame)
            other[at] ^= 1
            assert not one.is_verified(b"", other)
            assert coded(bytes(other), ElementType.BF16, bases=[(BaseKind.WIDER, base)]).layout != 0


def test_every_rounding_is_to_the_nearest_and_ties_go_to_even(simd):
    # Every upper half, with lower halves around a tie; NaN and infinities as the format has them.
    low = np.tile(np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], "<u4"), 1 << 16)
    wide = np.repeat(np.arange(1 << 16, dtype="<u4") << 16, 6) | low
    rounded = ((wide.astype(np.uint64) + 0x7FFF + (wide >> 16 & 1)) >> 16 & 0xFFFF).astype("<u2")
    payload = _native.decode_payload(b"", 2, 8, Predictor.NARROWED, 0, 2 * wide.size, wide.tobytes())
    assert payload == rounded.tobytes()
    torch_rounded = torch.from_numpy(wide.view("<f4")).to(torch.bfloat16).view(torch.int16).numpy().view("<u2")
    finite = np.isfinite(wide.view("<f4"))
    assert np.array_equal(rounded[finite], torch_rounded[finite])


def test_the_smallest_of_all_that_is_offered_is_taken(simd):
    frame, near = pair(40_000, ElementType.F32, BaseKind.SAME, 0.1)
    _, far = pair(40_000, ElementType.F32, BaseKind.NARROWER, 0)
    noise = np.random.default_rng(0).bytes(len(frame))
    bases = [(BaseKind.SAME, noise), (BaseKind.NARROWER, far), (BaseKind.SAME, near)]
    for level in LEVELS:
        sizes = [len(coded(frame, ElementType.F32, level, bases=bases[: k + 1]).payload) for k in range(3)]
        assert coded(frame, ElementType.F32, level, bases=bases).base == near
        assert sizes == sorted(sizes, reverse=True)
        assert coded(frame, ElementType.F32, level, bases=bases[:1]) == replace(
            coded(frame, ElementType.F32, level), bases=tuple(bases[:1])
        )


GRIDS = [Grid(64, 0), Grid(64, 13), Grid(17, 16), Grid(333, 332)]


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("grid", GRIDS, ids=lambda one: f"{one.columns} from {one.column}")
@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
def test_both_instruction_sets_predict_the_same_levels(element, grid, level):
    start = grid.column * element.width
    frame = moments(30_000 // grid.columns, grid.columns, element, products=2)[start:]
    with using("scalar"):
        first = coded(frame, element, level, grid)
    assert first.predictor == Predictor.LEVELS
    assert int.from_bytes(first.payload[:4], "little") == grid.columns
    assert coded(frame, element, level, grid) == first
    for name in INSTRUCTION_SETS:
        with using(name):
            assert first.decode(first.payload) == frame
            assert first.is_verified(first.payload, frame)


def test_levels_so_many_that_they_are_coded_too():
    frame, grid = exact_moments(), Grid(1_100, 0)
    one = coded(frame, ElementType.BF16, grid=grid)
    # Descriptors of rows and columns, behind the 12 bytes of the predictor.
    assert (one.predictor, one.payload[12], one.payload[20]) == (Predictor.LEVELS, Mode.RANS, Mode.RANS)
    with using("scalar"):
        assert coded(frame, ElementType.BF16, grid=grid) == one
        assert one.decode(one.payload) == frame
    assert one.is_verified(one.payload, frame)


@pytest.mark.parametrize("level", LEVELS)
def test_payloads_without_huffman_have_rans_in_its_place(level):
    frame = two_blocks_of_bells()
    one, other = (
        as_coded(frame, ElementType.U8, encode(frame, ElementType.U8, level, huffman=h)) for h in (True, False)
    )
    assert other.modes == [Mode.RANS if one.modes == [Mode.HUFFMAN] else one.modes[0]]
    assert other.decode(other.payload) == frame


def test_payloads_are_written_and_read_where_the_caller_says(simd):
    for make in EXAMPLES.values():
        one = make()
        width, octave_bits = one.header[:2]
        room = bytearray(_native.encode_bound_bytes(len(one.frame), width))
        levels = one.predictor == Predictor.LEVELS
        grid = [int.from_bytes(one.payload[at : at + 4], "little") if levels else 0 for at in (0, 4)]
        for level in LEVELS:
            settings = (*grid, level, True, list(one.bases))
            found = _native.encode_payload_into(one.frame, width, octave_bits, *settings, room)
            expected = _native.encode_payload(one.frame, width, octave_bits, *settings)
            assert (*found[:4], room[: found[4]]) == expected
        out = np.full(len(one.frame), 0xAA, np.uint8)
        _native.decode_payload_into(one.payload, *one.header, out, one.base)
        assert out.tobytes() == one.frame


def test_what_does_not_gain_is_none(simd):
    noise, other = (np.random.default_rng(seed).bytes(100_000) for seed in range(2))
    for level in LEVELS:
        assert (
            encode(noise, ElementType.F32, level, bases=[(BaseKind.SAME, other), (BaseKind.NARROWER, other[:50_000])])
            is None
        )
        assert encode(b"", ElementType.U8, level) is None
        assert encode(noise[:4_000], ElementType.F32, level) is None
        assert encode(noise, ElementType.U8, level) is None


@pytest.mark.parametrize("columns", [1, 0xFFFFFFFF])
def test_columns_that_no_frame_has_are_not_used(columns):
    frame = moments(40, 100, ElementType.F32)
    found = coded(frame, ElementType.F32, "small", Grid(columns, columns - 1))
    assert found == coded(frame, ElementType.F32, "small")
    assert found.decode(found.payload) == frame


def outcome(one: Coded, payload: bytes) -> bytes | str:
    try:
        return one.decode(payload)
    except ValueError as error:
        return str(error)


def damaged(payload: bytes, seed: int) -> bytes:
    """A bit, a few bytes, a piece gone or more of it; mostly near the start, where everything is said."""
    rng = np.random.default_rng(seed)
    changed = bytearray(payload)
    at = int(rng.integers(min(len(changed), 200)) if seed % 2 else rng.integers(len(changed)))
    match seed % 5:
        case 0 | 1:
            changed[at] ^= 1 << int(rng.integers(8))
        case 2:
            changed[at : at + 8] = rng.bytes(len(changed[at : at + 8]))
        case 3:
            del changed[at:]
        case _:
            changed[at:at] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(changed)


WITH_PLANES = [name for name in EXAMPLES if "copy" not in name]


@pytest.mark.parametrize("name", WITH_PLANES)
def test_damage_is_an_error_or_other_bytes_and_the_same_for_both_instruction_sets(name):
    one = EXAMPLES[name]()
    errors = verified = 0
    for seed in range(200):
        payload = damaged(one.payload, seed)
        found = []
        for simd_name in INSTRUCTION_SETS:
            with using(simd_name):
                decoded = outcome(one, payload)
                assert one.is_verified(payload, one.frame) == (decoded == one.frame)
                found.append(decoded)
        assert found[0] == found[1], seed
        errors += isinstance(found[0], str)
        verified += found[0] == one.frame
    assert errors > 60
    # Only bits that fill up a byte or a group mean nothing.
    assert verified < 20


@pytest.mark.parametrize("name", WITH_PLANES)
def test_a_payload_is_verified_for_its_own_frame_only(name, simd):
    one = EXAMPLES[name]()
    assert one.is_verified(one.payload, one.frame)
    rng = np.random.default_rng(0)
    for at in [0, len(one.frame) - 1, *rng.integers(len(one.frame), size=40)]:
        other = bytearray(one.frame)
        other[at] ^= 1 << int(rng.integers(8))
        assert not one.is_verified(one.payload, other)
    # Of a few elements less, what fills up a group might be taken for those.
    assert not one.is_verified(one.payload, one.frame[: len(one.frame) // 16 * 8])
    assert not one.is_verified(one.payload, one.frame * 2)
    assert not one.is_verified(one.payload, b"")
    assert not one.is_verified(b"", one.frame)


@pytest.mark.parametrize("level", LEVELS)
def test_threads_do_not_disturb_one_another(level):
    frames = [(moments(125, 64, element, seed), element, Grid(64, 0)) for element in FLOATS for seed in range(2)] + [
        (symbols(32_000, 0.2, seed), ElementType.U8, NO_GRID) for seed in range(4)
    ]
    expected = [coded(frame, element, level, grid) for frame, element, grid in frames]

    def work(k: int) -> bool:
        frame, element, grid = frames[k]
        found = coded(frame, element, level, grid)
        return found == expected[k] and found.decode(found.payload) == frame and found.is_verified(found.payload, frame)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, [k % len(frames) for k in range(96)]))
