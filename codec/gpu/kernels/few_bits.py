"""Planes of few bits: those bits of a symbol that vary, or a nibble. Source: docs/format.md, sections 3.2 and 3.4."""

import triton
import triton.language as tl

FIELDS = (
    "symbols",  # address of a block's
    "count",  # of them, 1 to 65,536
    "kind",  # 6: bits, 5: nibbles
    "mask",  # of bits
    "value",  # of bits; of nibbles the first symbol
    "stored",  # address of the block's bytes, any
    "exceptions",  # address of a number of 32 bits: their count
)
NIBBLES = tl.constexpr(5)
BITS = tl.constexpr(6)


@triton.jit
def is_exception(symbol, kind, mask, value):
    """symbol: int32."""
    return tl.where(kind == BITS, (symbol & (mask ^ 255)) != value, ((symbol - value) & 255) >= 16)


@triton.jit
def count_exceptions_kernel(table, FIELDS: tl.constexpr, TILE: tl.constexpr):
    """The numbers are 0 before. Grid: rows of the table, tiles."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    count = tl.load(row + 1).to(tl.int32)
    first = tl.program_id(1) * TILE
    if first >= count:
        return
    place = first + tl.arange(0, TILE)
    live = place < count
    symbol = tl.load(tl.load(row).to(tl.pointer_type(tl.uint8)) + place, mask=live, other=0).to(tl.int32)
    kind = tl.load(row + 2).to(tl.int32)
    found = live & is_exception(symbol, kind, tl.load(row + 3).to(tl.int32), tl.load(row + 4).to(tl.int32))
    total = tl.sum(found.to(tl.int32), 0)
    if total > 0:
        tl.atomic_add(tl.load(row + 6).to(tl.pointer_type(tl.int32)), total)


@triton.jit
def pack_kernel(table, FIELDS: tl.constexpr, TILE: tl.constexpr):
    """The bytes of blocks. TILE: symbols, a multiple of 64. Grid: rows of the table, tiles."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    symbols = tl.load(row).to(tl.pointer_type(tl.uint8))
    count = tl.load(row + 1).to(tl.int32)
    first = tl.program_id(1) * TILE
    if first >= count:
        return
    stored = tl.load(row + 5).to(tl.pointer_type(tl.uint8))
    value = tl.load(row + 4).to(tl.int32)
    if tl.load(row + 2).to(tl.int32) == BITS:
        mask = tl.load(row + 3).to(tl.int32)
        octet = first // 8 + tl.arange(0, TILE // 8)
        octets = (count + 7) // 8
        bit = tl.arange(0, 8)[None, :]
        place = octet[:, None] * 8 + bit
        symbol = tl.load(symbols + place, mask=place < count, other=0).to(tl.int32)
        for k in tl.static_range(8):
            if (mask >> k) & 1 != 0:
                packed = tl.sum(((symbol >> k) & 1) << bit, 1)
                tl.store(stored + octet, packed.to(tl.uint8), mask=octet < octets)
                stored += octets
    else:
        # The names differ from those above: one name is one shape.
        pair = first // 2 + tl.arange(0, TILE // 2)
        low = pair // 32 * 64 + pair % 32
        high = low + 32
        low_code = (tl.load(symbols + low, mask=low < count, other=0).to(tl.int32) - value) & 15
        high_code = (tl.load(symbols + high, mask=high < count, other=0).to(tl.int32) - value) & 15
        pairs = tl.where(low < count, low_code, 0) | tl.where(high < count, high_code, 0) << 4
        tl.store(stored + pair, pairs.to(tl.uint8), mask=pair < (count + 63) // 64 * 32)


@triton.jit
def unpack_kernel(table, FIELDS: tl.constexpr, TILE: tl.constexpr):
    """The inverse, but for the exceptions. Grid: rows of the table, tiles of symbols."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    symbols = tl.load(row).to(tl.pointer_type(tl.uint8))
    count = tl.load(row + 1).to(tl.int32)
    first = tl.program_id(1) * TILE
    if first >= count:
        return
    place = first + tl.arange(0, TILE)
    live = place < count
    stored = tl.load(row + 5).to(tl.pointer_type(tl.uint8))
    value = tl.load(row + 4).to(tl.int32)
    if tl.load(row + 2).to(tl.int32) == BITS:
        mask = tl.load(row + 3).to(tl.int32)
        symbol = tl.zeros([TILE], tl.int32) + value
        for k in tl.static_range(8):
            if (mask >> k) & 1 != 0:
                octet = tl.load(stored + place // 8, mask=live, other=0).to(tl.int32)
                symbol |= ((octet >> (place % 8)) & 1) << k
                stored += (count + 7) // 8
        tl.store(symbols + place, symbol.to(tl.uint8), mask=live)
    else:
        pair = tl.load(stored + place // 64 * 32 + place % 32, mask=live, other=0).to(tl.int32)
        code = tl.where(place % 64 < 32, pair & 15, pair >> 4)
        tl.store(symbols + place, (value + code).to(tl.uint8), mask=live)
