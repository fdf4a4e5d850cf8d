"""The decoder of rANS, one warp a chunk, and the table that it looks slots up in. Source: docs/format.md, section 4.

What is stored is not trusted: a word is only read where there is one, and what is wrong is told by a number a chunk.
"""

import triton
import triton.language as tl

TABLE_FIELDS = (
    "shares",  # address of 256 numbers of 32 bits: frequency | start << 16; the frequencies sum to 4096
    "slots",  # address of 4096 numbers of 32 bits: symbol | (frequency - 1) << 8 | (slot - start) << 20
)
FIELDS = (
    "chunk",  # address, any
    "length",  # at least 128, even
    "slots",  # address of the table
    "symbols",  # address of where they go
    "count",
    "fault",  # address of a number of 32 bits
)
LANES = tl.constexpr(32)
_LOWEST = tl.constexpr(1 << 16)
_SYMBOLS = tl.constexpr(256)
_SLOTS = tl.constexpr(4096)
# What a chunk's number says.
FAULT_NONE = tl.constexpr(0)
FAULT_STATE = tl.constexpr(1)
FAULT_TRUNCATED = tl.constexpr(2)
FAULT_WORDS = tl.constexpr(3)


@triton.jit
def rans_table_kernel(table, FIELDS: tl.constexpr, TILE: tl.constexpr):
    """Grid: rows of the table, tiles of slots."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    shares = tl.load(row).to(tl.pointer_type(tl.uint32))
    all_shares = tl.load(shares + tl.arange(0, _SYMBOLS)).to(tl.int32)
    ends = (all_shares & 0xFFFF) + (all_shares >> 16)
    slot = tl.program_id(1) * TILE + tl.arange(0, TILE)
    symbol = tl.sum((ends[None, :] <= slot[:, None]).to(tl.int32), 1)
    share = tl.load(shares + symbol).to(tl.int32)
    entry = symbol | ((share & 0xFFFF) - 1) << 8 | (slot - (share >> 16)) << 20
    tl.store(tl.load(row + 1).to(tl.pointer_type(tl.uint32)) + slot, entry.to(tl.uint32))


@triton.jit
def rans_decode_kernel(table, chunks, FIELDS: tl.constexpr, CHUNKS: tl.constexpr):
    """chunks: rows of the table. Grid: programs of CHUNKS rows, a warp each."""
    chunk = tl.program_id(0) * CHUNKS + tl.arange(0, CHUNKS)
    there = chunk < chunks
    row = table + chunk.to(tl.int64) * FIELDS
    lane = tl.arange(0, LANES)[None, :]
    stored = tl.load(row, mask=there, other=0)[:, None].to(tl.pointer_type(tl.uint8))
    words = ((tl.load(row + 1, mask=there, other=4 * LANES).to(tl.int32) - 4 * LANES) // 2)[:, None]
    slots = tl.load(row + 2, mask=there, other=0)[:, None].to(tl.pointer_type(tl.uint32))
    symbols = tl.load(row + 3, mask=there, other=0)[:, None].to(tl.pointer_type(tl.uint8)) + lane
    count = tl.load(row + 4, mask=there, other=0).to(tl.int32)[:, None]
    kept = there[:, None] & (lane < LANES)
    states = tl.full([CHUNKS, LANES], 0, tl.uint32)
    for k in tl.static_range(4):
        states |= tl.load(stored + 4 * lane + k, mask=kept, other=0).to(tl.uint32) << (8 * k)
    too_low = tl.max((kept & (states < _LOWEST)).to(tl.int32), 1)
    used = tl.zeros([CHUNKS], tl.int32)
    stored += 4 * LANES
    rows = (tl.max(count) + LANES - 1) // LANES
    for i in range(rows):
        at = i * LANES
        live = at + lane < count
        entry = tl.load(slots + (states & 4095).to(tl.int32), mask=live, other=0)
        tl.store(symbols + at, entry.to(tl.uint8), mask=live)
        x = (((entry >> 8) & 0xFFF) + 1) * (states >> 12) + (entry >> 20)
        refills = live & (x < _LOWEST)
        refilled = refills.to(tl.int32)
        place = used[:, None] + tl.cumsum(refilled, 1) - refilled
        inside = refills & (place < words)
        low = tl.load(stored + 2 * place, mask=inside, other=0).to(tl.uint32)
        high = tl.load(stored + 2 * place + 1, mask=inside, other=0).to(tl.uint32)
        x = tl.where(refills, (x << 16) | (high << 8) | low, x)
        states = tl.where(live, x, states)
        used += tl.sum(refilled, 1)
    missing = used > words.reshape([CHUNKS])
    left = (used < words.reshape([CHUNKS])) | (tl.max((kept & (states != _LOWEST)).to(tl.int32), 1) > 0)
    fault = tl.where(left, FAULT_WORDS, FAULT_NONE)
    fault = tl.where(missing, FAULT_TRUNCATED, fault)
    fault = tl.where(too_low > 0, FAULT_STATE, fault)
    tl.store(tl.load(row + 5, mask=there, other=0).to(tl.pointer_type(tl.int32)), fault, mask=there)
