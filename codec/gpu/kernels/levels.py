"""Levels of rows and columns: what is summed for them. Source: docs/format.md, section 5.2, steps 1, 5, 6 and 7.

One table for this module and level_fit. Whole rows that are looked at, every `step`-th, are called seen rows.
"""

import triton
import triton.language as tl

from .words import rotate

FIELDS = (
    "elements",  # address of the frame's; aligned to 16 bytes
    "count",
    "column_count",
    "column",  # of the first element
    "octave_bits",
    "row_count",
    "first_whole",  # element with which the first whole row begins
    "step",
    "seen",  # seen rows
    "sums",  # addresses; of every seen row the sum of H, 64 bits
    "varied",  # of every seen row whether its H differ, 32 bits
    "column_sums",  # of every column the sum of H over every fourth seen row that varies, then over all, 32 bits
    "offsets",  # d of every column, 32 bits
    "rest",  # E, 16 bits, by seen row and column
    "energies",  # of every seen row the sum of E^2, 64 bits
    "projections",  # of every column, 32 bits
    "rows",  # levels and then factors of all rows: signed bytes
    "columns",  # the same of all columns
    "gram",  # sums of B_k * B_l at 8 k + l, for l <= k, 64 bits
    "most_products",
    "found",  # address of 4 numbers of 32 bits, 0 before: whether there are levels, products, M
)
UNIFORM = tl.constexpr(-128)


@triton.jit
def floor_div(a, b):
    """b: above 0."""
    return a // b - ((a % b != 0) & (a < 0)).to(a.dtype)


@triton.jit
def limited(x):
    """As a level or a factor."""
    return tl.minimum(tl.maximum(x, -127), 127)


@triton.jit
def factor_of(dot, squares):
    """A, from 16 times the sum of x * B and the sum of B^2; 64 bits."""
    found = floor_div(dot + squares // 2, tl.maximum(squares, 1))
    return tl.where(squares == 0, 0, limited(found)).to(tl.int32)


@triton.jit
def load_tops(elements, index, live, WIDTH: tl.constexpr):
    """H as int32."""
    if WIDTH == 2:
        x = tl.load(elements.to(tl.pointer_type(tl.uint16)) + index, mask=live, other=0).to(tl.uint32)
    elif WIDTH == 4:
        x = tl.load(elements.to(tl.pointer_type(tl.uint32)) + index, mask=live, other=0)
    else:
        x = tl.load(elements.to(tl.pointer_type(tl.uint64)) + index, mask=live, other=0)
    return (rotate(x, 1, WIDTH) >> (8 * WIDTH - 16)).to(tl.int32)


@triton.jit
def row_sums_kernel(table, FIELDS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Of seen rows. Grid: rows of the table, tiles of ROWS seen rows."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    seen = tl.load(row + 8).to(tl.int32)
    if tl.program_id(1) * ROWS >= seen:
        return
    elements = tl.load(row)
    columns = tl.load(row + 2).to(tl.int32)
    number = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    start = tl.load(row + 6).to(tl.int32) + number * tl.load(row + 7).to(tl.int32) * columns
    sums = tl.zeros([ROWS], tl.int64)
    least = tl.full([ROWS], 65536, tl.int32)
    most = tl.full([ROWS], -1, tl.int32)
    for first in range(0, columns, COLUMNS):
        place = first + tl.arange(0, COLUMNS)
        live = (number[:, None] < seen) & (place[None, :] < columns)
        top = load_tops(elements, start[:, None] + place[None, :], live, WIDTH)
        sums += tl.sum(tl.where(live, top, 0), 1).to(tl.int64)
        least = tl.minimum(least, tl.min(tl.where(live, top, 65536), 1))
        most = tl.maximum(most, tl.max(tl.where(live, top, -1), 1))
    tl.store(tl.load(row + 9).to(tl.pointer_type(tl.int64)) + number, sums, mask=number < seen)
    varied = (least != most).to(tl.int32)
    tl.store(tl.load(row + 10).to(tl.pointer_type(tl.int32)) + number, varied, mask=number < seen)


@triton.jit
def column_sums_kernel(table, FIELDS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Over the seen rows that vary. Grid: rows of the table, tiles of COLUMNS columns."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    columns = tl.load(row + 2).to(tl.int32)
    if tl.program_id(1) * COLUMNS >= columns:
        return
    elements = tl.load(row)
    seen = tl.load(row + 8).to(tl.int32)
    varied = tl.load(row + 10).to(tl.pointer_type(tl.int32))
    place = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    some = tl.zeros([COLUMNS], tl.int32)
    total = tl.zeros([COLUMNS], tl.int32)
    for first in range(0, seen, ROWS):
        number = first + tl.arange(0, ROWS)
        varies = tl.load(varied + number, mask=number < seen, other=0) != 0
        start = tl.load(row + 6).to(tl.int32) + number * tl.load(row + 7).to(tl.int32) * columns
        live = varies[:, None] & (place[None, :] < columns)
        top = load_tops(elements, start[:, None] + place[None, :], live, WIDTH)
        top = tl.where(live, top, 0)
        total += tl.sum(top, 0)
        some += tl.sum(tl.where((number % 4 == 0)[:, None], top, 0), 0)
    sums = tl.load(row + 11).to(tl.pointer_type(tl.int32)) + place
    tl.store(sums, some, mask=place < columns)
    tl.store(sums + columns, total, mask=place < columns)


@triton.jit
def level_rows_kernel(table, FIELDS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Levels and factors of all rows, where level_fit found columns. Grid: rows of the table, tiles of ROWS rows."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    found = tl.load(row + 20).to(tl.pointer_type(tl.int32))
    row_count = tl.load(row + 5).to(tl.int32)
    first_row = tl.program_id(1) * ROWS
    if (tl.load(found) == 0) | (first_row >= row_count):
        return
    elements = tl.load(row)
    count = tl.load(row + 1).to(tl.int32)
    columns = tl.load(row + 2).to(tl.int32)
    column = tl.load(row + 3).to(tl.int32)
    octave = tl.load(row + 4).to(tl.int32)
    products = tl.load(found + 1)
    middle = tl.load(found + 2)
    unit = 1 << (octave - 3)
    to_columns = tl.load(row + 17).to(tl.pointer_type(tl.int8))
    number = first_row + tl.arange(0, ROWS)
    there = number < row_count
    start = number * columns - column

    sums = tl.zeros([ROWS], tl.int64)
    least = tl.full([ROWS], 65536, tl.int32)
    most = tl.full([ROWS], -1, tl.int32)
    elements_here = tl.zeros([ROWS], tl.int32)
    for first in range(0, columns, COLUMNS):
        place = first + tl.arange(0, COLUMNS)
        index = start[:, None] + place[None, :]
        live = there[:, None] & (place[None, :] < columns) & (index >= 0) & (index < count)
        top = load_tops(elements, index, live, WIDTH)
        level = tl.load(to_columns + place, mask=place < columns, other=0).to(tl.int32)
        sums += tl.sum(tl.where(live, top - unit * level[None, :], 0), 1).to(tl.int64)
        least = tl.minimum(least, tl.min(tl.where(live, top, 65536), 1))
        most = tl.maximum(most, tl.max(tl.where(live, top, -1), 1))
        elements_here += tl.sum(live.to(tl.int32), 1)
    varied = least != most
    mean = floor_div(sums, tl.maximum(elements_here, 1).to(tl.int64)).to(tl.int32)
    level = limited(floor_div(mean - middle + unit // 2, unit))
    to_rows = tl.load(row + 16).to(tl.pointer_type(tl.int8)) + number
    tl.store(to_rows, tl.where(varied, level, UNIFORM).to(tl.int8), mask=there)

    gram = tl.load(row + 18).to(tl.pointer_type(tl.int64))
    is_whole = elements_here == columns
    has_parts = tl.max((there & (elements_here != columns)).to(tl.int32), 0) > 0
    for k in range(products):
        dots = tl.zeros([ROWS], tl.int64)
        for first in range(0, columns, COLUMNS):
            place = first + tl.arange(0, COLUMNS)
            index = start[:, None] + place[None, :]
            live = there[:, None] & (place[None, :] < columns) & (index >= 0) & (index < count)
            top = load_tops(elements, index, live, WIDTH)
            of_column = tl.load(to_columns + place, mask=place < columns, other=0).to(tl.int32)
            x = (top - middle - unit * (level[:, None] + of_column[None, :])) << 8 >> octave
            x = tl.minimum(tl.maximum(x, -2047), 2047)
            factors = tl.load(to_columns + (1 + k) * columns + place, mask=place < columns, other=0).to(tl.int32)
            dots += tl.sum(tl.where(live, x * factors[None, :], 0).to(tl.int64), 1)
        dots *= 16
        squares = tl.zeros([ROWS], tl.int64)
        for l in range(k + 1):
            shared = tl.zeros([ROWS], tl.int64) + tl.load(gram + 8 * k + l)
            if has_parts:
                part = tl.zeros([ROWS], tl.int64)
                for first in range(0, columns, COLUMNS):
                    place = first + tl.arange(0, COLUMNS)
                    index = start[:, None] + place[None, :]
                    live = there[:, None] & (place[None, :] < columns) & (index >= 0) & (index < count)
                    one = tl.load(to_columns + (1 + k) * columns + place, mask=place < columns, other=0).to(tl.int32)
                    other = tl.load(to_columns + (1 + l) * columns + place, mask=place < columns, other=0).to(tl.int32)
                    part += tl.sum(tl.where(live, (one * other)[None, :], 0).to(tl.int64), 1)
                shared = tl.where(is_whole, shared, part)
            if l < k:
                taken = tl.load(to_rows + (1 + l) * row_count, mask=there, other=0).to(tl.int64)
                dots -= taken * shared
            else:
                squares = shared
        found_factor = tl.where(varied, factor_of(dots, squares), 0)
        tl.store(to_rows + (1 + k) * row_count, found_factor.to(tl.int8), mask=there)
        # Other threads of the program read it for the next product.
        tl.debug_barrier()
