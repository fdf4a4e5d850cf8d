"""How often each byte occurs in planes, or in those of samples."""

import triton
import triton.language as tl

FIELDS = (
    "plane",  # address; aligned to 16 bytes
    "count",
    "counts",  # address of 256 numbers of 32 bits, zeros before
)


@triton.jit
def histogram_kernel(table, FIELDS: tl.constexpr, TILE: tl.constexpr):
    """Grid: rows of the table, tiles. Tiles add to one histogram."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    count = tl.load(row + 1).to(tl.int32)
    first = tl.program_id(1) * TILE
    if first >= count:
        return
    plane = tl.multiple_of(tl.load(row).to(tl.pointer_type(tl.uint8)), 16)
    place = first + tl.arange(0, TILE)
    # Of bytes it would count with the sign. Whole tiles have no mask: it would keep loads from being wide.
    if first + TILE <= count:
        found = tl.histogram(tl.load(plane + place).to(tl.int32), 256)
    else:
        live = place < count
        found = tl.histogram(tl.load(plane + place, mask=live, other=0).to(tl.int32), 256, mask=live)
    counts = tl.load(row + 2).to(tl.pointer_type(tl.int32)) + tl.arange(0, 256)
    tl.atomic_add(counts, found, mask=found > 0)
