"""An encoder of GDeflate pages for tests, from docs/format.md: stored, fixed and dynamic blocks, with matches or without."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from s4weights.codec.entropy.huffman_code import package_merge

PAGE = 65_536
LANES = 32
PRECODE_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
LENGTHS = [(3 + k, 0) for k in range(8)]
for bits in range(1, 6):
    LENGTHS += [(LENGTHS[-1][0] + (1 << LENGTHS[-1][1]) + (k << bits), bits) for k in range(4)]
LENGTHS.append((3, 16))
DISTANCES = [(1, 0), (2, 0), (3, 0), (4, 0)]
for bits in range(1, 15):
    DISTANCES += [(DISTANCES[-1][0] + (1 << DISTANCES[-1][1]) + (k << bits), bits) for k in range(2)]

# A literal, or length and distance.
Token = int | tuple[int, int]


@dataclass
class Bits:
    """What the lanes read, in the order in which a reader takes it."""

    events: list[tuple[int, int, int]] = field(default_factory=list)

    def put(self, lane: int, value: int, count: int) -> None:
        self.events.append((lane, value, count))

    def words(self) -> bytes:
        """32 words, then one for each time a lane falls below 32 bits."""
        lanes, lengths, left = [0] * LANES, [0] * LANES, [32] * LANES
        order = list(range(LANES))
        for lane, value, count in self.events:
            lanes[lane] |= value << lengths[lane]
            lengths[lane] += count
            left[lane] -= count
            if left[lane] < 32:
                left[lane] += 32
                order.append(lane)
        words = []
        for lane in order:
            words.append(lanes[lane] & 0xFFFFFFFF)
            lanes[lane] >>= 32
        return struct.pack(f"<{len(words)}I", *words)


class Codes:
    """Lengths and codes of an alphabet; codes with the first bit lowest."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = list(lengths)
        self.codes = [0] * len(lengths)
        code = 0
        for length in range(1, 16):
            for symbol in (s for s, one in enumerate(lengths) if one == length):
                self.codes[symbol] = int(f"{code:0{length}b}"[::-1], 2)
                code += 1
            code <<= 1

    def put(self, bits: Bits, lane: int, symbol: int, extra: int = 0, extra_bits: int = 0) -> None:
        length = self.lengths[symbol]
        assert length
        bits.put(lane, self.codes[symbol], length)
        bits.put(lane, extra, extra_bits)


FIXED = Codes([8] * 144 + [9] * 112 + [7] * 24 + [8] * 8), Codes([5] * 32)


def best_codes(counts: Sequence[int], most: int) -> Codes:
    """Of at most 11 bits; two symbols have one where fewer occur. most: bits that must do."""
    weights = np.array(counts, dtype=np.int64)
    for symbol in range(2):
        if np.count_nonzero(weights) < 2 and weights[symbol] == 0:
            weights[symbol] = 1
    used = np.flatnonzero(weights)
    lengths = np.zeros(len(weights), dtype=np.int64)
    lengths[used] = package_merge([int(one) for one in weights[used]])
    if int(lengths.max()) > most:
        lengths[used] = max(1, (len(used) - 1).bit_length())
    return Codes(lengths.tolist())


def symbol_of(value: int, table: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
    """Symbol, extra bits' value, their number."""
    for symbol in range(len(table) - 1, -1, -1):
        base, count = table[symbol]
        if base <= value < base + (1 << count):
            return symbol, value - base, count
    raise AssertionError(value)


def tokens_of(data: bytes, at: int, end: int, longest: int) -> Iterator[Token]:
    """Greedy: the last place where four bytes came before. longest: 0 for literals only."""
    seen: dict[bytes, int] = {}
    for start in range(at):
        seen[data[start : start + 4]] = start
    while at < end:
        key = data[at : at + 4]
        before = seen.get(key)
        seen[key] = at
        length = 0
        while before is not None and length < min(longest, end - at) and data[before + length] == data[at + length]:
            length += 1
        if length >= 4:
            assert before is not None
            yield length, at - before
            at += length
        else:
            yield data[at]
            at += 1


def put_tokens(bits: Bits, tokens: Sequence[Token], literals: Codes, distances: Codes) -> None:
    """Round by round; a match's distance is read by its lane in the next round."""
    waiting: dict[int, int] = {}
    todo = iter([*tokens, None])
    is_open = True
    while is_open or waiting:
        for lane in range(LANES):
            if lane in waiting:
                symbol, extra, count = symbol_of(waiting.pop(lane), DISTANCES)
                distances.put(bits, lane, symbol, extra, count)
            elif is_open:
                token = next(todo)
                if token is None:
                    literals.put(bits, lane, 256)
                    is_open = False
                elif isinstance(token, int):
                    literals.put(bits, lane, token)
                else:
                    symbol, extra, count = symbol_of(token[0], LENGTHS)
                    literals.put(bits, lane, 257 + symbol, extra, count)
                    waiting[lane] = token[1]


def put_code_lengths(bits: Bits, literals: Codes, distances: Codes) -> None:
    """Runs of zeros by 17 and 18, others by 16."""
    lengths = [*literals.lengths, *distances.lengths]
    runs: list[tuple[int, int, int]] = []
    at = 0
    while at < len(lengths):
        run = next((k for k in range(1, len(lengths) - at) if lengths[at + k] != lengths[at]), len(lengths) - at)
        if lengths[at] == 0 and run >= 3:
            run = min(run, 138)
            runs.append((18, run - 11, 7) if run >= 11 else (17, run - 3, 3))
        elif run >= 4:
            run = min(run, 7)
            runs += [(lengths[at], 0, 0), (16, run - 4, 2)]
        else:
            run = 1
            runs.append((lengths[at], 0, 0))
        at += run
    counts = [0] * 19
    for symbol, _, _ in runs:
        counts[symbol] += 1
    own = best_codes(counts, 7)
    bits.put(0, len(literals.lengths) - 257, 5)
    bits.put(0, len(distances.lengths) - 1, 5)
    bits.put(0, 19 - 4, 4)
    for lane, symbol in enumerate(PRECODE_ORDER):
        bits.put(lane, own.lengths[symbol], 3)
    for number, (symbol, extra, count) in enumerate(runs):
        own.put(bits, number % LANES, symbol, extra, count)


def encode_page(data: bytes, *, kinds: Sequence[int] = (2,), longest: int = 300) -> bytes:
    """One page. kinds: of its blocks (0 stored, 1 fixed, 2 dynamic), which share the bytes. longest: of a match."""
    bits = Bits()
    step = -(-len(data) // len(kinds))
    for number, kind in enumerate(kinds):
        at, end = min(number * step, len(data)), min((number + 1) * step, len(data))
        bits.put(0, int(number == len(kinds) - 1), 1)
        bits.put(0, kind, 2)
        if kind == 0:
            bits.put(0, end - at, 16)
            for i, value in enumerate(data[at:end]):
                bits.put(i % LANES, value, 8)
            continue
        tokens = list(tokens_of(data, at, end, longest))
        codes = FIXED
        if kind == 2:
            literal_counts, distance_counts = [0] * 286, [0] * 32
            literal_counts[256] = 1
            for token in tokens:
                if isinstance(token, int):
                    literal_counts[token] += 1
                else:
                    literal_counts[257 + symbol_of(token[0], LENGTHS)[0]] += 1
                    distance_counts[symbol_of(token[1], DISTANCES)[0]] += 1
            codes = best_codes(literal_counts, 15), best_codes(distance_counts, 15)
            put_code_lengths(bits, *codes)
        put_tokens(bits, tokens, *codes)
    return bits.words()


def encode_plane(plane: bytes, **options: object) -> bytes:
    """Page lengths, pages."""
    pages = [encode_page(plane[at : at + PAGE], **options) for at in range(0, len(plane), PAGE)]  # type: ignore[arg-type]
    return struct.pack(f"<{len(pages)}I", *map(len, pages)) + b"".join(pages)
