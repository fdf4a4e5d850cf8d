"""Levels of rows and columns: taken away and given back, when they are tried, and what a reader rejects."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from s4weights.codec import levels
from s4weights.codec.errors import FormatError, Truncated, UnsupportedVersion
from s4weights.codec.levels import Head, Levels
from s4weights.codec.types import NO_GRID, ElementType, Grid
from tests.codec.engines.bodies import FLOATS, cut, moments

F32, BF16 = ElementType.F32, ElementType.BF16


def random_levels(grid: Grid, n: int, base: int) -> Levels:
    rng = np.random.default_rng(n)
    products = base % 5
    rows = rng.integers(-128, 128, (1 + products, (grid.column + n - 1) // grid.columns + 1))
    return Levels(base, grid, rows, rng.integers(-128, 128, (1 + products, grid.columns)))


@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
@pytest.mark.parametrize("base", [0, 2, 0x7F00, 0xFFFE])
def test_what_is_taken_away_comes_back_and_leaves_all_signs(element, base):
    n, grid = 5_000, Grid(37, 11)
    data = np.random.default_rng(0).bytes(n * element.width)
    for used in (Levels(base), random_levels(grid, n, base)):
        predicted = used.predict(element, np.arange(n))
        rest = levels.subtract(data, element, predicted)
        assert levels.add(rest, element, predicted) == data
        signs = [np.frombuffer(one, dtype=f"<i{element.width}") < 0 for one in (data, rest)]
        assert (signs[0] == signs[1]).all()
        # Only the top 16 bits after a rotation by one are changed.
        words = [np.frombuffer(one, dtype=f"<u{element.width}").astype(object) for one in (data, rest)]
        low = (1 << 8 * element.width - 17) - 1 if element.width > 2 else 0
        assert [int(one) & low for one in words[0]] == [int(one) & low for one in words[1]]


def test_one_element_is_changed_as_the_document_says():
    # 1.0 in bf16 is 3F80, rotated 7F00. Row 1 at 8, column 2 at -4: 4 eighths of an octave of 256, and the base.
    used = Levels(0x7000, Grid(4, 2), np.array([[0, 8]]), np.array([[0, 0, -4, 0]]))
    predicted = used.predict(BF16, np.arange(6))
    assert predicted.tolist() == [0x7000 - 128, 0x7000, 0x7000 + 256, 0x7000 + 256, 0x7000 + 128, 0x7000 + 256]
    rest = levels.subtract(b"\x80\x3f" * 6, BF16, predicted)
    assert struct.unpack_from("<H", rest, 8) == ((0x7F00 - 0x7080) >> 1,)


def test_products_are_added_each_rounded_down_and_the_sum_made_even():
    used = Levels(0, Grid(2, 0), np.array([[0, -128], [3, 127], [-5, 127]]), np.array([[0, 0], [7, -7], [1, 127]]))
    # bf16: 21 div 16 is 1, -5 div 16 is -1; -21 div 16 is -2, -635 div 16 is -40.
    assert used.predict(BF16, np.arange(4)).tolist() == [0, 65_536 - 42, 0, 0]
    # fp16: 21 div 2 is 10, -5 div 2 is -3, of 7 the lowest bit goes; -11 and -318.
    assert used.predict(ElementType.F16, np.arange(4)).tolist() == [6, 65_536 - 330, 0, 0]


def test_a_row_at_the_lowest_level_is_not_predicted_and_a_column_there_is():
    used = Levels(0x100, Grid(2, 0), np.array([[-128, 0]]), np.array([[-128, 5]]))
    assert used.predict(F32, np.arange(4)).tolist() == [0, 0, (0x100 - 128 * 32) & 0xFFFF, 0x100 + 5 * 32]


@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
@pytest.mark.parametrize("start", [0, 1, 40])
def test_moments_lie_in_few_octaves_afterwards(element, start):
    data, grid = cut(moments(200, 64, element), element, 64, start, 10_000)
    used = levels.fit(data, element, grid, 0)
    top = levels.top_words(data, element)
    rest = (top - used.predict(element, np.arange(10_000))).astype(np.int16)
    never_used = top == 0
    assert (rest[never_used & (np.arange(10_000) >= 64)] == 0).all()
    octave = 1 << element.octave_bits
    # They lie about half an octave, which is one value of the exponent.
    assert (np.abs(rest[~never_used] - octave / 2) < 2 * octave).mean() > 0.97
    assert np.std(rest[~never_used] / octave) < 0.7 * np.std(top[~never_used] / octave)


def test_rows_that_are_the_same_all_over_have_the_lowest_level():
    data, grid = cut(moments(100, 32, F32), F32, 32, 31, 2_000)
    used = levels.fit(data, F32, grid, 0)
    # The first row holds one element: it is the same all over.
    assert np.flatnonzero(used.rows[0] == -128).tolist() == [0, *range(4, 64, 9)]
    assert used.rows[0][used.rows[0] != -128].min() >= -127
    assert used.base % 2 == 0


def clip(x: int, most: int) -> int:
    return max(-most, min(most, x))


def factor(x: list[int], b: list[int]) -> int:
    q = sum(y * y for y in b)
    return 0 if q == 0 else clip((16 * sum(map(int.__mul__, x, b)) + q // 2) // q, 127)


def normal(x: list[int]) -> list[int] | None:
    m = max(map(abs, x))
    return None if m == 0 else [(254 * y + m) // (2 * m) for y in x]


def without(x: list[int], a: int, b: list[int]) -> list[int]:
    return [y - a * z // 16 for y, z in zip(x, b, strict=True)]


def products_as_the_document_says(left: list[list[int]], most: int, room: Callable[[int], bool]) -> list[list[int]]:
    """Section 5.2, step 4. room: whether there may be another beside so many."""
    found: list[list[int]] = []
    while len(found) < most and room(len(found)):
        sums = [sum(x * x for x in row) for row in left]
        b = normal(left[sums.index(max(sums))])
        for _ in range(2):
            if b is not None:
                factors = [factor(row, b) for row in left]
                b = normal([sum(a * row[j] for a, row in zip(factors, left, strict=True)) for j in range(len(b))])
        if b is None:
            break
        after = [without(row, factor(row, b), b) for row in left]
        before = sum(sums)
        if (before - sum(x * x for row in after for x in row)) * 12 < before:
            break
        found.append(b)
        left = after
    return found


@pytest.mark.parametrize("products", [0, 1, 3])
@pytest.mark.parametrize("element", FLOATS, ids=lambda one: one.name)
def test_levels_are_those_of_the_document_word_by_word(element, products):
    """Section 5.2 with Python's integers, over lists."""
    columns, first, n, bits = 24, 5, 4_000, 8 * element.width
    data, grid = cut(moments(200, columns, element, 3, products), element, columns, first, n)
    octave = {ElementType.BF16: 256, ElementType.F16: 2048, ElementType.F32: 256, ElementType.F64: 32}[element]
    unit = octave // 8
    rows: list[list[int]] = [[] for _ in range(-(-(first + n) // columns))]
    for i in range(n):
        word = int.from_bytes(data[i * element.width : (i + 1) * element.width], "little")
        turned = (word << 1 | word >> bits - 1) & (1 << bits) - 1
        rows[(first + i) // columns].append(turned >> bits - 16)
    whole = [row for row in rows if len(row) == columns]
    looked_at = [row for row in whole[:: max(1, len(whole) // 64)] if len(set(row)) > 1]
    v = len(looked_at)
    total = sum(sum(row) // columns for row in looked_at)
    d = [(sum(row[j] for row in looked_at) - total) // v for j in range(columns)]
    column_levels = [clip((x + unit // 2) // unit, 127) for x in d]
    left = [
        [clip((h - sum(row) // columns - d[j]) * 256 // octave, 2047) for j, h in enumerate(row)] for row in looked_at
    ]
    column_factors = products_as_the_document_says(left, 8, lambda k: (2 + k) * (len(rows) + columns) * 8 <= n)
    starts = [first] + [0] * (len(rows) - 1)
    means = [
        sum(h - unit * column_levels[start + k] for k, h in enumerate(row)) // len(row)
        for start, row in zip(starts, rows, strict=True)
    ]
    varied = [len(set(row)) > 1 for row in rows]
    middle = total // v
    found_rows = []
    for start, row, mean, one in zip(starts, rows, means, varied, strict=True):
        level = clip((mean - middle + unit // 2) // unit, 127)
        x = [
            clip((h - middle - unit * (level + column_levels[start + k])) * 256 // octave, 2047)
            for k, h in enumerate(row)
        ]
        factors = []
        for b in column_factors:
            factors.append(factor(x, b[start : start + len(row)]))
            x = without(x, factors[-1], b[start : start + len(row)])
        found_rows.append([level, *factors] if one else [-128] + [0] * len(column_factors))
    found = levels.fit(data, element, grid, 8)
    assert found.columns.tolist() == [column_levels, *column_factors]
    assert found.rows.T.tolist() == found_rows
    assert found.base == (middle - octave // 2) // 2 * 2 % 65_536
    assert (found.products > 0) >= (products > 0)


@pytest.mark.parametrize("most", [0, 1, 8])
def test_no_more_products_than_allowed_and_no_more_than_there_is_room_for(most):
    data = moments(64, 64, F32, products=3)
    # 64 * 64 elements, 128 rows and columns, 8 elements each: at most 4 times 128 bytes.
    assert levels.fit(data, F32, Grid(64, 0), most).products == min(most, 3)


@pytest.mark.parametrize(
    ("columns", "start", "count", "tried"),
    [
        (16, 0, 16 * 40, True),
        (15, 0, 15 * 40, False),
        (32, 0, 32 * 11, True),
        # 7 whole rows of 8 and a half.
        (100, 50, 800, False),
        # Levels for 10 rows and 40 columns, from 8 times as many elements or one less.
        (40, 0, 400, True),
        (40, 0, 399, False),
        (64, 0, 0, False),
    ],
)
def test_levels_are_tried_where_there_are_enough_rows_and_columns(columns, start, count, tried):
    data, grid = cut(moments(60, columns, F32, 1), F32, columns, start, max(count, 1))
    assert (levels.fit(data, F32, grid, 0) is not None) == tried


def test_levels_are_not_tried_without_columns_or_without_a_pattern():
    data = moments(100, 64, F32)
    assert levels.fit(data, F32, NO_GRID, 8) is None
    flat = np.random.default_rng(0).normal(0, 1, (100, 64)).astype("<f4").__abs__().tobytes()
    assert levels.fit(flat, F32, Grid(64, 0), 8) is None
    same = np.repeat(np.exp(np.random.default_rng(0).normal(0, 3, 100)), 64).astype("<f4").tobytes()
    assert levels.fit(same, F32, Grid(64, 0), 8) is None


def head(columns: int, column: int = 0, base: int = 0, products: int = 0, reserved: int = 0) -> bytes:
    return struct.pack("<IIHBB", columns, column, base, products, reserved)


@pytest.mark.parametrize(
    ("stored", "error", "text"),
    [
        (b"", Truncated, "expected 12 bytes, found 0"),
        (bytes(11), Truncated, "found 11"),
        (head(0, base=1), FormatError, "even base, found 1"),
        (head(0, reserved=1), UnsupportedVersion, "zero byte, found 0x01"),
        (head(0, column=1), FormatError, "found 1"),
        (head(0, products=1), FormatError, "at most 0 products, found 1"),
        (head(10, products=9), FormatError, "at most 8 products, found 9"),
        (head(10, column=10), FormatError, "first of 10 columns, or 0 without any, found 10"),
        (head(10, column=0xFFFFFFFF), FormatError, "found 4294967295"),
        (head(1), FormatError, r"at most 100 bytes of rows and columns, found \[100, 1\]"),
        (head(100), FormatError, r"found \[1, 100\]"),
        (head(0xFFFFFFFF), FormatError, r"found \[1, 4294967295\]"),
        (head(98, column=97), FormatError, r"found \[3, 98\]"),
        (head(10, products=5), FormatError, r"found \[60, 60\]"),
    ],
)
def test_a_reader_rejects(stored, error, text):
    with pytest.raises(FormatError, match=text) as caught:
        levels.read_head(stored, 100)
    assert caught.type is error


def test_a_head_is_read_as_written():
    assert levels.read_head(head(10, products=4), 100) == Head(0, Grid(10, 0), 4)
    used = random_levels(Grid(20, 19), 1_000, 0x1234)
    found = levels.read_head(used.head(), 1_000)
    assert found == Head(0x1234, Grid(20, 19), 0x1234 % 5)
    assert [len(plane) for plane in used.planes()] == found.plane_sizes(1_000)
    again = levels.read_levels(found, used.planes())
    assert (again.rows == used.rows).all()
    assert (again.columns == used.columns).all()
    assert levels.read_head(Levels(0xFFFE).head() + b"more", 1) == Head(0xFFFE, NO_GRID, 0)
