"""Whether bytes are the same, as a base predicts them, or come again."""

import triton
import triton.language as tl

from .words import narrow

FIELDS = (
    "left",  # address; aligned to 16 bytes where ALIGNED is set
    "right",  # the same
    "count",  # bytes, or with NARROWED elements
    "differs",  # address of a number of 32 bits, 0 before; 1 where they differ
)
REPEATS_FIELDS = (
    "data",  # address
    "places",  # where the first bytes are looked for: from 1 on, below this
    "found",  # address of a number of 32 bits, MAX_PLACE before: the first such place
)
REPEATED_BYTES = tl.constexpr(64)
MAX_PLACE = 1 << 30


@triton.jit
def _load(pointers, live, FULL: tl.constexpr):
    """A mask that may end anywhere would keep loads from being wide."""
    if FULL:
        return tl.load(pointers)
    else:
        return tl.load(pointers, mask=live, other=0)


@triton.jit
def _differs(row, first, place, live, FULL: tl.constexpr, NARROWED: tl.constexpr, ALIGNED: tl.constexpr):
    if NARROWED:
        left = tl.multiple_of((tl.load(row) + 2 * first).to(tl.pointer_type(tl.uint16)), 16) + place
        right = tl.multiple_of((tl.load(row + 1) + 4 * first).to(tl.pointer_type(tl.uint32)), 16) + place
        narrowed = narrow(_load(right, live, FULL))
        return live & (_load(left, live, FULL).to(tl.uint32) != narrowed)
    else:
        left = (tl.load(row) + first).to(tl.pointer_type(tl.uint8))
        right = (tl.load(row + 1) + first).to(tl.pointer_type(tl.uint8))
        if ALIGNED:
            left = tl.multiple_of(left, 16)
            right = tl.multiple_of(right, 16)
        return live & (_load(left + place, live, FULL) != _load(right + place, live, FULL))


@triton.jit
def compare_kernel(table, FIELDS: tl.constexpr, NARROWED: tl.constexpr, ALIGNED: tl.constexpr, TILE: tl.constexpr):
    """NARROWED: left is bf16, right fp32. Grid: rows of the table, tiles."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    count = tl.load(row + 2)
    first = tl.program_id(1).to(tl.int64) * TILE
    if first >= count:
        return
    place = tl.arange(0, TILE)
    if first + TILE <= count:
        differs = _differs(row, first, place, place < TILE, True, NARROWED, ALIGNED)
    else:
        differs = _differs(row, first, place, place < count - first, False, NARROWED, ALIGNED)
    if tl.max(differs.to(tl.int32), 0) > 0:
        # Every tile that finds one writes the same.
        tl.store(tl.load(row + 3).to(tl.pointer_type(tl.int32)), 1)


@triton.jit
def repeats_kernel(table, FIELDS: tl.constexpr, TILE: tl.constexpr):
    """Grid: rows of the table, tiles of places."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    places = tl.load(row + 1).to(tl.int32)
    first = tl.program_id(1) * TILE
    if first >= places:
        return
    data = tl.load(row).to(tl.pointer_type(tl.uint8))
    place = first + tl.arange(0, TILE)
    same = ((place > 0) & (place < places)).to(tl.int32)
    k = 0
    # Most places differ in the first bytes.
    while (k < REPEATED_BYTES) & (tl.max(same, 0) > 0):
        octet = tl.load(data + k)
        same = same & (tl.load(data + place + k, mask=same > 0, other=0) == octet).to(tl.int32)
        k += 1
    nearest = tl.min(tl.where(same > 0, place, 1 << 30), 0)
    if nearest < 1 << 30:
        tl.atomic_min(tl.load(row + 2).to(tl.pointer_type(tl.int32)), nearest)
