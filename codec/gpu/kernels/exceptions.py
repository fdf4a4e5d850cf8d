"""Symbols that few bits do not code: position and value, behind a plane's blocks. Source: docs/format.md, section 3.1."""

import triton
import triton.language as tl

from .few_bits import is_exception

FIELDS = (
    "symbols",  # address of a block's
    "count",  # of them
    "kind",  # these as in few_bits
    "mask",
    "value",
    "stored",  # address of the block's exceptions, any
    "exceptions",  # how many there are
    "fault",  # decoding: address of a number of 32 bits, 0 before; 1 where positions are wrong
)


@triton.jit
def gather_exceptions_kernel(table, FIELDS: tl.constexpr, TILE: tl.constexpr):
    """Positions and values of a block's exceptions. Grid: rows of the table."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    symbols = tl.load(row).to(tl.pointer_type(tl.uint8))
    count = tl.load(row + 1).to(tl.int32)
    kind = tl.load(row + 2).to(tl.int32)
    mask = tl.load(row + 3).to(tl.int32)
    value = tl.load(row + 4).to(tl.int32)
    positions = tl.load(row + 5).to(tl.pointer_type(tl.uint8))
    values = positions + 2 * tl.load(row + 6)
    written = 0
    for first in range(0, count, TILE):
        place = first + tl.arange(0, TILE)
        live = place < count
        symbol = tl.load(symbols + place, mask=live, other=0).to(tl.int32)
        found = live & is_exception(symbol, kind, mask, value)
        one = found.to(tl.int32)
        rank = written + tl.cumsum(one, 0) - one
        tl.store(positions + 2 * rank, (place & 255).to(tl.uint8), mask=found)
        tl.store(positions + 2 * rank + 1, (place >> 8).to(tl.uint8), mask=found)
        tl.store(values + rank, symbol.to(tl.uint8), mask=found)
        written += tl.sum(one, 0)


@triton.jit
def scatter_exceptions_kernel(table, FIELDS: tl.constexpr, TILE: tl.constexpr):
    """Values over what the blocks' bytes gave. Grid: rows of the table, tiles of exceptions."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    symbols = tl.load(row).to(tl.pointer_type(tl.uint8))
    count = tl.load(row + 1).to(tl.int32)
    positions = tl.load(row + 5).to(tl.pointer_type(tl.uint8))
    exceptions = tl.load(row + 6).to(tl.int32)
    first = tl.program_id(1) * TILE
    if first >= exceptions:
        return
    number = first + tl.arange(0, TILE)
    live = number < exceptions
    low = tl.load(positions + 2 * number, mask=live, other=0).to(tl.int32)
    place = tl.load(positions + 2 * number + 1, mask=live, other=0).to(tl.int32) << 8 | low
    after_first = live & (number > 0)
    low_before = tl.load(positions + 2 * number - 2, mask=after_first, other=0).to(tl.int32)
    before = tl.load(positions + 2 * number - 1, mask=after_first, other=0).to(tl.int32) << 8 | low_before
    wrong = live & ((place >= count) | (after_first & (place <= before)))
    value = tl.load(positions + 2 * exceptions + number, mask=live, other=0)
    # Positions that come twice would race; they are wrong, and the plane is then not used.
    tl.store(symbols + place, value, mask=live & (place < count))
    if tl.max(wrong.to(tl.int32), 0) > 0:
        tl.store(tl.load(row + 7).to(tl.pointer_type(tl.int32)), 1)
