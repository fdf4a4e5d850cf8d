"""Whole payloads: both instruction sets the same, damage, verification, many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from s4weights.codec import _native
from s4weights.codec.types import NO_GRID, ElementType, Grid, Mode
from tests.codec.engines.bodies import FLOATS, TYPED, moments, symbols, weights
from tests.native.payloads import EXAMPLES, LEVELS, Coded, coded, encode, exact_moments, two_blocks_of_bells, using


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
        one = Coded(element, frame, *first)
        assert len(one.payload) < len(frame)
        for name in ("scalar", "avx2"):
            with using(name):
                assert one.decode(one.payload) == frame
                assert one.is_verified(one.payload, frame)


GRIDS = [Grid(64, 0), Grid(64, 13), Grid(17, 16), Grid(333, 332)]


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("grid", GRIDS, ids=lambda one: f"{one.columns} from {one.column}")
@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
def test_both_instruction_sets_predict_the_same_levels(element, grid, level):
    start = grid.column * element.width
    frame = moments(30_000 // grid.columns, grid.columns, element, products=2)[start:]
    with using("scalar"):
        first = coded(frame, element, level, grid)
    assert first.predicted
    assert int.from_bytes(first.payload[:4], "little") == grid.columns
    assert coded(frame, element, level, grid) == first
    for name in ("scalar", "avx2"):
        with using(name):
            assert first.decode(first.payload) == frame
            assert first.is_verified(first.payload, frame)


def test_levels_so_many_that_they_are_coded_too():
    frame, grid = exact_moments(), Grid(1_100, 0)
    one = coded(frame, ElementType.BF16, grid=grid)
    # Descriptors of rows and columns, behind the 12 bytes of the predictor.
    assert (one.predicted, one.payload[12], one.payload[20]) == (True, Mode.RANS, Mode.RANS)
    with using("scalar"):
        assert coded(frame, ElementType.BF16, grid=grid) == one
        assert one.decode(one.payload) == frame
    assert one.is_verified(one.payload, frame)


@pytest.mark.parametrize("level", LEVELS)
def test_payloads_without_huffman_have_rans_in_its_place(level):
    frame = two_blocks_of_bells()
    one, other = (Coded(ElementType.U8, frame, *encode(frame, ElementType.U8, level, huffman=h)) for h in (True, False))
    assert other.modes == [Mode.RANS if one.modes == [Mode.HUFFMAN] else one.modes[0]]
    assert other.decode(other.payload) == frame


def test_payloads_are_written_and_read_where_the_caller_says(simd):
    for make in EXAMPLES.values():
        one = make()
        width, octave_bits = one.layout[:2]
        room = bytearray(_native.encode_bound_bytes(len(one.frame), width))
        columns, column = (int.from_bytes(one.payload[at : at + 4], "little") for at in (0, 4))
        for level in LEVELS:
            settings = (columns, column, level, True) if one.predicted else (0, 0, level, True)
            found = _native.encode_payload_into(one.frame, width, octave_bits, *settings, room)
            expected = _native.encode_payload(one.frame, width, octave_bits, *settings)
            assert (*found[:3], room[: found[3]]) == expected
        out = np.full(len(one.frame), 0xAA, np.uint8)
        _native.decode_payload_into(one.payload, *one.layout, out)
        assert out.tobytes() == one.frame


def test_what_does_not_gain_is_none(simd):
    noise = np.random.default_rng(0).bytes(100_000)
    for level in LEVELS:
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


@pytest.mark.parametrize("name", EXAMPLES)
def test_damage_is_an_error_or_other_bytes_and_the_same_for_both_instruction_sets(name):
    one = EXAMPLES[name]()
    errors = verified = 0
    for seed in range(200):
        payload = damaged(one.payload, seed)
        found = []
        for simd_name in ("scalar", "avx2"):
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


@pytest.mark.parametrize("name", EXAMPLES)
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
