"""rANS, one warp a chunk: 32 lanes side by side, rows of the chunk one after another. Source: docs/format.md, section 4.

Bound by latency: what a row needs from memory is asked for a row ahead, and many chunks are under way at once.
"""

import triton
import triton.language as tl

FIELDS = (
    "symbols",  # address
    "count",  # 1 to 131,072
    "codes",  # address of 256 numbers of 64 bits: frequency | start << 16 | (2^32 div frequency, at most 2^32 - 1) << 32
    "end",  # address behind the room, even; the chunk is written so that it ends there
    "length",  # address of a number of 32 bits: the chunk's bytes
)
# Room for the worst chunk.
STATES_BYTES = 128
LANES = tl.constexpr(32)
_LOWEST = tl.constexpr(1 << 16)


@triton.jit
def rans_encode_kernel(table, chunks, FIELDS: tl.constexpr, CHUNKS: tl.constexpr):
    """chunks: rows of the table. Grid: programs of CHUNKS rows, a warp each."""
    chunk = tl.program_id(0) * CHUNKS + tl.arange(0, CHUNKS)
    there = chunk < chunks
    row = table + chunk.to(tl.int64) * FIELDS
    count = tl.load(row + 1, mask=there, other=0).to(tl.int32)[:, None]
    lane = tl.arange(0, LANES)[None, :]
    symbols = tl.load(row, mask=there, other=0)[:, None].to(tl.pointer_type(tl.uint8)) + lane
    codes = tl.load(row + 2, mask=there, other=0)[:, None].to(tl.pointer_type(tl.uint64))
    end = tl.load(row + 3, mask=there, other=0)[:, None].to(tl.pointer_type(tl.uint16))
    rows = (tl.max(count) + LANES - 1) // LANES
    states = tl.full([CHUNKS, LANES], _LOWEST, tl.uint32)
    written = tl.zeros([CHUNKS], tl.int32)

    at = (rows - 1) * LANES
    live = at + lane < count
    symbol = tl.load(symbols + at, mask=live, other=0).to(tl.int32)
    code = tl.load(codes + symbol, mask=live, other=1)
    for _ in range(rows):
        before = at - LANES
        live_before = (before >= 0) & (before + lane < count)
        symbol = tl.load(symbols + before, mask=live_before, other=0).to(tl.int32)

        frequency = (code & 0xFFFF).to(tl.uint32)
        # states >= frequency << 20 would overflow for 4096.
        emits = live & ((states >> 20) >= frequency)
        emitted = emits.to(tl.int32)
        total = tl.sum(emitted, 1)
        written += total
        rank = tl.cumsum(emitted, 1) - emitted
        tl.store(end - written[:, None] + rank, (states & 0xFFFF).to(tl.uint16), mask=emits)
        x = tl.where(emits, states >> 16, states)
        # x div frequency, or one less.
        quotient = tl.umulhi(x, (code >> 32).to(tl.uint32))
        rest = x - quotient * frequency
        short = rest >= frequency
        quotient = tl.where(short, quotient + 1, quotient)
        rest = tl.where(short, rest - frequency, rest)
        states = tl.where(live, (quotient << 12) + rest + ((code >> 16) & 0xFFFF).to(tl.uint32), states)

        code = tl.load(codes + symbol, mask=live_before, other=1)
        live = live_before
        at = before

    # Halves: the words may have left it at any even address.
    start = end - written[:, None] - 2 * LANES + 2 * lane
    kept = there[:, None] & (lane < LANES)
    tl.store(start, (states & 0xFFFF).to(tl.uint16), mask=kept)
    tl.store(start + 1, (states >> 16).to(tl.uint16), mask=kept)
    length = tl.load(row + 4, mask=there, other=0).to(tl.pointer_type(tl.int32))
    tl.store(length, 2 * written + 4 * LANES, mask=there)
