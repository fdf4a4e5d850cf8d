"""A decoder of payloads made from docs/format.md alone, one symbol at a time: what the engines are held against."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from s4weights.codec.types import ElementType, Layout, Predictor

BLOCK = 65_536
CHUNK = 131_072


def decode_payload(
    payload: bytes, element: ElementType, predictor: Predictor, layout: Layout, n: int, other: bytes = b""
) -> bytes:
    """Sections 2.2 and 2.3. payload: behind the reference. n: elements. other: those that it is predicted from."""
    width = element.width
    if layout is Layout.RAW:
        assert not payload
        return b"".join(_from_base(0, element, predictor, word) for word in _words(other, len(other) // n))
    at, sizes = 0, []
    columns = column = base = 0
    if predictor is Predictor.LEVELS:
        columns, column, base, products, reserved = struct.unpack_from("<IIHBB", payload)
        assert reserved == 0
        at = 12
        sizes = [(1 + products) * size for size in (-(-(column + n) // columns), columns)] if columns else []
    levels = len(sizes)
    sizes += [n] * width
    descriptors = [struct.unpack_from("<B3sI", payload, at + 8 * k) for k in range(len(sizes))]
    at += 8 * len(sizes)
    planes = []
    for size, (mode, reserved, length) in zip(sizes, descriptors, strict=True):
        assert reserved == bytes(3)
        planes.append(decode_plane(mode, payload[at : at + length], size))
        at += length
    assert at == len(payload)
    signed = [[x - 256 if x > 127 else x for x in plane] for plane in planes[:levels]]
    bits, turn = 8 * width, layout - 1
    out = bytearray()
    for i in range(n):
        word = sum(plane[i] << 8 * k for k, plane in enumerate(planes[levels:]))
        if predictor is Predictor.LEVELS:
            unturned = _left(word, bits - (layout - 2), bits)
            top = (unturned >> bits - 16) + _predicted(element, base, columns, column + i, signed)
            word = unturned & (1 << bits - 16) - 1 | top % 65_536 << bits - 16
            turn = 1
        out += _left(word, bits - turn, bits).to_bytes(width, "little")
    if not other:
        return bytes(out)
    pairs = zip(_words(out, width), _words(other, len(other) // n), strict=True)
    return b"".join(_from_base(word, element, predictor, one) for word, one in pairs)


def _words(data: bytes | bytearray, width: int) -> list[int]:
    return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]


def _from_base(z: int, element: ElementType, predictor: Predictor, base: int) -> bytes:
    """Predictors 2 to 5 of section 2.3, of one element. z: out of the planes."""
    bits = 8 * element.width
    top, every = 1 << bits - 1, (1 << bits) - 1
    if predictor is Predictor.XOR:
        x = z ^ base
    elif predictor is Predictor.NARROWED:
        x = z ^ (base + 32_767 + (base >> 16 & 1)) % 2**32 // 65_536
    elif predictor is Predictor.WIDENED:
        x = z + 65_536 * base - 32_768
    else:
        is_float = element in (ElementType.BF16, ElementType.F16, ElementType.F32, ElementType.F64)
        ordered = base if not is_float else (every - base if base & top else base | top)
        x = (ordered + (z // 2 ^ (every if z & 1 else 0))) & every
        if is_float:
            x = x - top if x & top else every - x
    return (x & every).to_bytes(element.width, "little")


def decode_plane(mode: int, stored: bytes, n: int) -> bytes:
    """Section 3; not zstd."""
    if mode == 0:
        assert len(stored) == n
        return stored
    if mode == 1:
        assert len(stored) == 1
        return stored * n
    return {2: decode_rans, 4: _huffman, 5: _nibbles, 6: _bits}[mode](stored, n)


def decode_rans(stored: bytes, n: int) -> bytes:
    """Section 4."""
    present = [s for s in range(256) if stored[s // 8] >> s % 8 & 1]
    packed = int.from_bytes(stored[32 : 32 + (3 * len(present) + 1) // 2], "little")
    frequencies = [packed >> 12 * k & 4095 for k in range(len(present))]
    symbol_at = [(s, f, k) for s, f in zip(present, frequencies, strict=True) for k in range(f)]
    at = 32 + (3 * len(present) + 1) // 2
    lengths = struct.unpack_from(f"<{-(-n // CHUNK)}I", stored, at)
    at += 4 * len(lengths)
    out = bytearray()
    for length in lengths:
        states = list(struct.unpack_from("<32I", stored, at))
        words = iter(struct.unpack_from(f"<{(length - 128) // 2}H", stored, at + 128))
        for i in range(min(CHUNK, n - len(out))):
            x = states[i % 32]
            s, f, offset = symbol_at[x % 4096]
            x = f * (x // 4096) + offset
            states[i % 32] = x * 65536 + next(words) if x < 65536 else x
            out.append(s)
        assert states == [65536] * 32
        assert next(words, None) is None
        at += length
    assert at == len(stored)
    return bytes(out)


def _left(word: int, turn: int, bits: int) -> int:
    turn %= bits
    return (word << turn | word >> bits - turn) & (1 << bits) - 1


def _predicted(element: ElementType, base: int, columns: int, place: int, levels: list[list[int]]) -> int:
    if columns == 0:
        return base
    rows = len(levels[0]) * columns // len(levels[1])
    row, column = levels[0][place // columns], levels[1][place % columns]
    octave = {ElementType.BF16: 8, ElementType.F16: 11, ElementType.F32: 8, ElementType.F64: 5}[element]
    if row == -128:
        return 0
    total = base + 2 ** (octave - 3) * (row + column)
    for product in range(1, len(levels[1]) // columns):
        a = levels[0][product * rows + place // columns]
        b = levels[1][product * columns + place % columns]
        total += a * b // 2 ** (12 - octave)
    return total // 2 * 2


def _blocks(
    stored: bytes, at: int, n: int, entry: int, read: Callable[[int, int, tuple[int, ...]], list[int]]
) -> bytes:
    """Section 3.1. entry: numbers in an entry of the table. read: a block, from its start, its symbols and its entry."""
    count = -(-n // BLOCK)
    table = [struct.unpack_from(f"<{entry}H", stored, at + 2 * entry * i) for i in range(count)]
    at += 2 * entry * count
    sizes = [min(BLOCK, n - i * BLOCK) for i in range(count)]
    blocks = []
    for m, numbers in zip(sizes, table, strict=True):
        *block, used = read(at, m, numbers)
        assert len(block) == m
        blocks.append(block)
        at += used
    for block, numbers in zip(blocks, table, strict=True):
        positions = struct.unpack_from(f"<{numbers[-1]}H", stored, at)
        at += 2 * len(positions)
        for position, value in zip(positions, stored[at : at + len(positions)], strict=True):
            block[position] = value
        at += len(positions)
        assert list(positions) == sorted(set(positions))
    assert at == len(stored)
    return b"".join(map(bytes, blocks))


def _bits(stored: bytes, n: int) -> bytes:
    mask, value = stored[:2]
    places = [k for k in range(8) if mask >> k & 1]

    def read(at: int, m: int, entry: tuple[int, ...]) -> list[int]:
        size = -(-m // 8)
        symbols = [
            value | sum((stored[at + row * size + i // 8] >> i % 8 & 1) << k for row, k in enumerate(places))
            for i in range(m)
        ]
        return [*symbols, size * len(places)]

    return _blocks(stored, 2, n, 1, read)


def _nibbles(stored: bytes, n: int) -> bytes:
    def read(at: int, m: int, entry: tuple[int, ...]) -> list[int]:
        symbols = []
        for i in range(m):
            octet = stored[at + i // 64 * 32 + i % 32]
            symbols.append((stored[0] + (octet & 15 if i % 64 < 32 else octet >> 4)) % 256)
        return [*symbols, -(-m // 64) * 32]

    return _blocks(stored, 1, n, 1, read)


def _huffman(stored: bytes, n: int) -> bytes:
    first, count = stored[0], stored[1] + 1
    lengths = [stored[2 + place // 2] >> 4 * (place % 2) & 15 for place in range(count)]
    codes: dict[tuple[int, int], int] = {}
    code = last = 0
    for length, place in sorted((length, place) for place, length in enumerate(lengths) if length):
        if codes:
            code = (code + 1) << (length - last)
        codes[length, code] = (first + place) % 256
        last = length

    def stream_bits(octets: bytes) -> Iterator[int]:
        return (octet >> k & 1 for octet in octets for k in range(8))

    def read(at: int, m: int, entry: tuple[int, ...]) -> list[int]:
        q = 32 * -(-m // 128)
        symbols = []
        used = 0
        for j, size in enumerate(entry[:4]):
            bits = stream_bits(stored[at + used : at + used + size])
            for _ in range(min((j + 1) * q, m) - min(j * q, m)):
                length = word = 0
                while (length, word) not in codes:
                    length, word = length + 1, word << 1 | next(bits)
                symbols.append(codes[length, word])
            rest = list(bits)
            assert len(rest) < 8
            assert not any(rest)
            used += size
        return [*symbols, used]

    return _blocks(stored, 2 + -(-count // 2), n, 5, read)
