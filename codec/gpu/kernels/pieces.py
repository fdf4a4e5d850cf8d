"""Pieces of bytes to where they go: what makes a payload compact.

Source and target may begin anywhere. Words are written where they are aligned, each made of the two that its bytes lie in; the
few bytes before the first and behind the last aligned word go one by one.
"""

import triton
import triton.language as tl

FIELDS = (
    "source",  # address, any
    "target",  # address, any
    "length",
)


@triton.jit
def copy_kernel(table, FIELDS: tl.constexpr, TILE: tl.constexpr):
    """TILE: words. Grid: rows of the table, tiles."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    source = tl.load(row)
    target = tl.load(row + 1)
    length = tl.load(row + 2).to(tl.int32)
    head = tl.minimum((4 - (target & 3).to(tl.int32)) & 3, length)
    words = (length - head) // 4
    tile = tl.program_id(1)
    if (tile > 0) & (tile * TILE >= words):
        return
    if tile == 0:
        edge = tl.arange(0, 8)
        offset = tl.where(edge < 4, edge, head + 4 * words + edge - 4)
        live = tl.where(edge < 4, edge < head, offset < length)
        octets = tl.load(source.to(tl.pointer_type(tl.uint8)) + offset, mask=live, other=0)
        tl.store(target.to(tl.pointer_type(tl.uint8)) + offset, octets, mask=live)
    word = tile * TILE + tl.arange(0, TILE)
    live = word < words
    first = source + head
    shift = (first & 3).to(tl.uint32) * 8
    # An aligned word with a byte of the source in it lies within what was allocated.
    low = (first & -4).to(tl.pointer_type(tl.uint32)) + word
    value = tl.load(low, mask=live, other=0)
    after = tl.load(low + 1, mask=live & (shift != 0), other=0)
    joined = (value >> shift) | ((after << 1) << (31 - shift))
    tl.store((target + head).to(tl.pointer_type(tl.uint32)) + word, joined, mask=live)
