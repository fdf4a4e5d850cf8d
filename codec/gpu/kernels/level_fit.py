"""Columns of levels and of products, one program a frame. Source: docs/format.md, section 5.2, steps 2 to 4.

What one pass over the seen rows needs of the one before lies in memory, with a barrier between; nothing comes to the host, and
frames wait for no others.
"""

import triton
import triton.language as tl

from .levels import factor_of, floor_div, limited, load_tops

_ITERATIONS = tl.constexpr(2)
_LEAST_SHARE = tl.constexpr(12)
_FEWEST_ROWS = tl.constexpr(8)
_ELEMENTS_EACH = tl.constexpr(8)


@triton.jit
def _look(sums, varied, column_sums, seen, columns, every, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Of every so manieth seen row that varies: their number, the sum of their means, and how far rows and columns spread."""
    rows = tl.zeros([ROWS], tl.int64)
    total = tl.zeros([ROWS], tl.int64)
    for first in range(0, seen, ROWS):
        number = first + tl.arange(0, ROWS)
        here = tl.load(varied + number, mask=(number < seen) & (number % every == 0), other=0) != 0
        rows += here.to(tl.int64)
        total += tl.where(here, tl.load(sums + number, mask=here, other=0) // columns, 0)
    v = tl.sum(rows, 0)
    total_of_means = tl.sum(total, 0)
    middle = total_of_means // tl.maximum(v, 1)
    row_spread = tl.zeros([ROWS], tl.int64)
    for first in range(0, seen, ROWS):
        number = first + tl.arange(0, ROWS)
        here = tl.load(varied + number, mask=(number < seen) & (number % every == 0), other=0) != 0
        off = tl.where(here, tl.load(sums + number, mask=here, other=0) // columns - middle, 0)
        row_spread += off * off
    column_spread = tl.zeros([COLUMNS], tl.int64)
    for first in range(0, columns, COLUMNS):
        place = first + tl.arange(0, COLUMNS)
        live = place < columns
        off = floor_div(tl.load(column_sums + place, mask=live, other=0) - total_of_means, tl.maximum(v, 1))
        column_spread += tl.where(live, off * off, 0)
    spread = tl.sum(column_spread, 0) // columns + tl.sum(row_spread, 0) // tl.maximum(v, 1)
    return v, total_of_means, spread


@triton.jit
def _store_normal(values, greatest, columns, to, COLUMNS: tl.constexpr):
    """The greatest to 127. greatest: above 0."""
    for first in range(0, columns, COLUMNS):
        place = first + tl.arange(0, COLUMNS)
        x = tl.load(values + place, mask=place < columns, other=0).to(tl.int64)
        normal = floor_div(254 * x + greatest, 2 * greatest)
        tl.store(to + place, normal.to(tl.int8), mask=place < columns)


@triton.jit
def _dot(one, other, columns, COLUMNS: tl.constexpr):
    """The sum of the products of two columns' factors."""
    sums = tl.zeros([COLUMNS], tl.int64)
    for first in range(0, columns, COLUMNS):
        place = first + tl.arange(0, COLUMNS)
        a = tl.load(one + place, mask=place < columns, other=0).to(tl.int32)
        b = tl.load(other + place, mask=place < columns, other=0).to(tl.int32)
        sums += (a * b).to(tl.int64)
    return tl.sum(sums, 0)


@triton.jit
def _greatest(values, columns, COLUMNS: tl.constexpr):
    """The greatest amount."""
    most = tl.zeros([COLUMNS], tl.int32)
    for first in range(0, columns, COLUMNS):
        place = first + tl.arange(0, COLUMNS)
        most = tl.maximum(most, tl.abs(tl.load(values + place, mask=place < columns, other=0).to(tl.int32)))
    return tl.max(most, 0).to(tl.int64)


@triton.jit
def _row_factors(rest, number, seen, columns, factors, squares, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A of some seen rows."""
    dots = tl.zeros([ROWS], tl.int64)
    for first in range(0, columns, COLUMNS):
        place = first + tl.arange(0, COLUMNS)
        live = (number[:, None] < seen) & (place[None, :] < columns)
        x = tl.load(rest + number[:, None] * columns + place[None, :], mask=live, other=0).to(tl.int32)
        b = tl.load(factors + place, mask=place < columns, other=0).to(tl.int32)
        dots += tl.sum((x * b[None, :]).to(tl.int64), 1)
    return factor_of(16 * dots, squares)


@triton.jit
def _project(rest, seen, columns, factors, squares, projections, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """b: of every column the sum of A * E over the seen rows."""
    for first in range(0, columns, COLUMNS):
        place = first + tl.arange(0, COLUMNS)
        tl.store(projections + place, tl.zeros([COLUMNS], tl.int32), mask=place < columns)
    tl.debug_barrier()
    for first_row in range(0, seen, ROWS):
        number = first_row + tl.arange(0, ROWS)
        a = _row_factors(rest, number, seen, columns, factors, squares, ROWS, COLUMNS)
        for first in range(0, columns, COLUMNS):
            place = first + tl.arange(0, COLUMNS)
            live = (number[:, None] < seen) & (place[None, :] < columns)
            x = tl.load(rest + number[:, None] * columns + place[None, :], mask=live, other=0).to(tl.int32)
            sums = tl.sum(a[:, None] * x, 0)
            # The same threads hold the same columns in every round.
            sums += tl.load(projections + place, mask=place < columns, other=0)
            tl.store(projections + place, sums, mask=place < columns)
        tl.debug_barrier()


@triton.jit
def _take_product(rest, energies, seen, columns, factors, squares, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """E less its product; the sum of what is left, squared."""
    total = tl.zeros([ROWS], tl.int64)
    for first_row in range(0, seen, ROWS):
        number = first_row + tl.arange(0, ROWS)
        a = _row_factors(rest, number, seen, columns, factors, squares, ROWS, COLUMNS)
        energy = tl.zeros([ROWS], tl.int64)
        for first in range(0, columns, COLUMNS):
            place = first + tl.arange(0, COLUMNS)
            live = (number[:, None] < seen) & (place[None, :] < columns)
            at = rest + number[:, None] * columns + place[None, :]
            b = tl.load(factors + place, mask=place < columns, other=0).to(tl.int32)
            x = tl.load(at, mask=live, other=0).to(tl.int32) - (a[:, None] * b[None, :] >> 4)
            x = tl.where(live, x, 0)
            tl.store(at, x.to(tl.int16), mask=live)
            energy += tl.sum((x * x).to(tl.int64), 1)
        tl.store(energies + number, energy, mask=number < seen)
        total += energy
    tl.debug_barrier()
    return tl.sum(total, 0)


@triton.jit
def _start_row(energies, seen, ROWS: tl.constexpr):
    """The seen row with the greatest energy, the first of equals."""
    best = -1
    most = tl.max(tl.full([ROWS], -1, tl.int64), 0)
    for first in range(0, seen, ROWS):
        number = first + tl.arange(0, ROWS)
        energy = tl.load(energies + number, mask=number < seen, other=-1)
        here = tl.max(energy, 0)
        place = tl.min(tl.where(energy == here, number, 1 << 30), 0)
        best = tl.where(here > most, place, best)
        most = tl.maximum(most, here)
    return best


@triton.jit
def level_fit_kernel(table, FIELDS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Whether levels are worth a trial; those of columns, and products. Grid: rows of the table."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    columns = tl.load(row + 2).to(tl.int32)
    octave = tl.load(row + 4).to(tl.int32)
    seen = tl.load(row + 8).to(tl.int32)
    sums = tl.load(row + 9).to(tl.pointer_type(tl.int64))
    varied = tl.load(row + 10).to(tl.pointer_type(tl.int32))
    column_sums = tl.load(row + 11).to(tl.pointer_type(tl.int32))
    least_spread = 1 << (2 * octave - 2)
    some, _some_total, some_spread = _look(sums, varied, column_sums, seen, columns, 4, ROWS, COLUMNS)
    if (some >= _FEWEST_ROWS) & (some_spread < least_spread):
        return
    v, total, spread = _look(sums, varied, column_sums + columns, seen, columns, 1, ROWS, COLUMNS)
    if (v < _FEWEST_ROWS) | (spread < least_spread):
        return

    elements = tl.load(row)
    offsets = tl.load(row + 12).to(tl.pointer_type(tl.int32))
    rest = tl.load(row + 13).to(tl.pointer_type(tl.int16))
    energies = tl.load(row + 14).to(tl.pointer_type(tl.int64))
    projections = tl.load(row + 15).to(tl.pointer_type(tl.int32))
    to_columns = tl.load(row + 17).to(tl.pointer_type(tl.int8))
    unit = 1 << (octave - 3)
    for first in range(0, columns, COLUMNS):
        place = first + tl.arange(0, COLUMNS)
        live = place < columns
        off = floor_div(tl.load(column_sums + columns + place, mask=live, other=0) - total, v).to(tl.int32)
        tl.store(offsets + place, off, mask=live)
        tl.store(to_columns + place, limited(floor_div(off + unit // 2, unit)).to(tl.int8), mask=live)
    tl.debug_barrier()

    most = tl.load(row + 19).to(tl.int32)
    room = tl.load(row + 1).to(tl.int32) // (_ELEMENTS_EACH * (tl.load(row + 5).to(tl.int32) + columns)) - 1
    most = tl.minimum(most, room)
    products = 0
    if most > 0:
        all_squares = tl.zeros([ROWS], tl.int64)
        for first_row in range(0, seen, ROWS):
            number = first_row + tl.arange(0, ROWS)
            varies = tl.load(varied + number, mask=number < seen, other=0) != 0
            mean = (tl.load(sums + number, mask=varies, other=0) // columns).to(tl.int32)
            start = tl.load(row + 6).to(tl.int32) + number * tl.load(row + 7).to(tl.int32) * columns
            energy = tl.zeros([ROWS], tl.int64)
            for first in range(0, columns, COLUMNS):
                place = first + tl.arange(0, COLUMNS)
                live = varies[:, None] & (place[None, :] < columns)
                top = load_tops(elements, start[:, None] + place[None, :], live, WIDTH)
                off = tl.load(offsets + place, mask=place < columns, other=0)
                x = (top - mean[:, None] - off[None, :]) << 8 >> octave
                x = tl.where(live, tl.minimum(tl.maximum(x, -2047), 2047), 0)
                written = (number[:, None] < seen) & (place[None, :] < columns)
                tl.store(rest + number[:, None] * columns + place[None, :], x.to(tl.int16), mask=written)
                energy += tl.sum((x * x).to(tl.int64), 1)
            tl.store(energies + number, energy, mask=number < seen)
            all_squares += energy
        tl.debug_barrier()
        before = tl.sum(all_squares, 0)
        goes_on = 1
        while goes_on > 0:
            factors = to_columns + (1 + products) * columns
            start_row = rest + _start_row(energies, seen, ROWS) * columns
            greatest = _greatest(start_row, columns, COLUMNS)
            if greatest > 0:
                _store_normal(start_row, greatest, columns, factors, COLUMNS)
            tl.debug_barrier()
            for _ in range(_ITERATIONS):
                if greatest > 0:
                    squares = _dot(factors, factors, columns, COLUMNS)
                    _project(rest, seen, columns, factors, squares, projections, ROWS, COLUMNS)
                    greatest = _greatest(projections, columns, COLUMNS)
                    tl.debug_barrier()
                    if greatest > 0:
                        _store_normal(projections, greatest, columns, factors, COLUMNS)
                    tl.debug_barrier()
            goes_on = 0
            if greatest > 0:
                squares = _dot(factors, factors, columns, COLUMNS)
                after = _take_product(rest, energies, seen, columns, factors, squares, ROWS, COLUMNS)
                if (before - after) * _LEAST_SHARE >= before:
                    products += 1
                    before = after
                    goes_on = (products < most).to(tl.int32)
    gram = tl.load(row + 18).to(tl.pointer_type(tl.int64))
    for k in range(products):
        for l in range(k + 1):
            one = to_columns + (1 + k) * columns
            other = to_columns + (1 + l) * columns
            tl.store(gram + 8 * k + l, _dot(one, other, columns, COLUMNS))
    found = tl.load(row + 20).to(tl.pointer_type(tl.int32))
    tl.store(found, 1)
    tl.store(found + 1, products)
    tl.store(found + 2, (total // v).to(tl.int32))
