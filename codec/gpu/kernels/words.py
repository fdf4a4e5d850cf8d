"""What is done to one element before its planes are taken, and undone. Source: docs/format.md, section 2.3.

Elements of one, two and four bytes are worked on as 32-bit words, of eight as 64-bit words.
"""

import triton
import triton.language as tl

# What a kernel is compiled for. 0 and 2 to 5 are the codes of the format; levels are two, with a grid and without.
NONE = tl.constexpr(0)
LEVELS = tl.constexpr(1)
XOR = tl.constexpr(2)
DIFFERENCE = tl.constexpr(3)
NARROWED = tl.constexpr(4)
WIDENED = tl.constexpr(5)
BASE_ONLY = tl.constexpr(6)


@triton.jit
def cut(x, WIDTH: tl.constexpr):
    """The low 8 * WIDTH bits."""
    if WIDTH == 1:
        x = x & 0xFF
    elif WIDTH == 2:
        x = x & 0xFFFF
    return x


@triton.jit
def rotate(x, bits, WIDTH: tl.constexpr):
    """To the left by 0 to 8 * WIDTH - 1 bits."""
    return cut((x << bits) | ((x >> 1) >> (8 * WIDTH - 1 - bits)), WIDTH)


@triton.jit
def narrow(wide):
    """fp32 to bf16, rounded to the nearest, ties to even; the sum is 32 bits wide."""
    return (wide + ((wide >> 16) & 1) + 32767) >> 16


@triton.jit
def ordered(x, is_float, WIDTH: tl.constexpr):
    """Ascending as the values are: all bits of a negative float turned, of others the top one."""
    top = x >> (8 * WIDTH - 1)
    turned = cut((0 - top) | (top * 0 + 1) << (8 * WIDTH - 1), WIDTH)
    return tl.where(is_float, x ^ turned, x)


@triton.jit
def unordered(y, is_float, WIDTH: tl.constexpr):
    """The exact inverse."""
    top = y >> (8 * WIDTH - 1)
    turned = cut((top - 1) | (top * 0 + 1) << (8 * WIDTH - 1), WIDTH)
    return tl.where(is_float, y ^ turned, y)


@triton.jit
def subtract(x, p, is_float, PREDICTOR: tl.constexpr, WIDTH: tl.constexpr):
    """x less what a base predicts. p: the base's elements, as words."""
    if PREDICTOR == XOR:
        x = x ^ p
    elif PREDICTOR == DIFFERENCE:
        d = cut(ordered(x, is_float, WIDTH) - ordered(p, is_float, WIDTH), WIDTH)
        x = cut((d << 1) ^ (0 - (d >> (8 * WIDTH - 1))), WIDTH)
    elif PREDICTOR == NARROWED:
        x = x ^ narrow(p)
    elif PREDICTOR == WIDENED:
        x = x - ((p << 16) - 32768)
    return x


@triton.jit
def add(z, p, is_float, PREDICTOR: tl.constexpr, WIDTH: tl.constexpr):
    """The exact inverse of subtract."""
    if PREDICTOR == XOR:
        z = z ^ p
    elif PREDICTOR == DIFFERENCE:
        d = cut((z >> 1) ^ (0 - (z & 1)), WIDTH)
        z = unordered(cut(d + ordered(p, is_float, WIDTH), WIDTH), is_float, WIDTH)
    elif PREDICTOR == NARROWED:
        z = z ^ narrow(p)
    elif PREDICTOR == WIDENED:
        z = z + ((p << 16) - 32768)
    return z


@triton.jit
def top_of(x, WIDTH: tl.constexpr):
    """H as int32: the top 16 bits after a rotation by one bit."""
    return (rotate(x, 1, WIDTH) >> (8 * WIDTH - 16)).to(tl.int32)


@triton.jit
def add_to_top(turned, p, WIDTH: tl.constexpr):
    """turned: after a rotation by one bit. p: int32, added to its top 16 bits mod 65536."""
    if WIDTH == 2:
        turned = (turned + p.to(tl.uint32)) & 0xFFFF
    elif WIDTH == 4:
        turned = turned + (p.to(tl.uint32) << 16)
    else:
        turned = turned + (p.to(tl.int64).to(tl.uint64) << 48)
    return turned


@triton.jit
def predicted(index, live, rows, columns, row_count, column_count, column, base, products, octave):
    """P of the elements with these numbers, by rows and columns; before it is taken mod 65536.

    rows, columns: levels, then each product's factors, signed bytes.
    """
    place = index + column
    r = place // column_count
    c = place % column_count
    level = tl.load(rows + r, mask=live, other=0).to(tl.int32)
    sums = base + ((level + tl.load(columns + c, mask=live, other=0).to(tl.int32)) << (octave - 3))
    for k in range(1, products + 1):
        a = tl.load(rows + k * row_count + r, mask=live, other=0).to(tl.int32)
        b = tl.load(columns + k * column_count + c, mask=live, other=0).to(tl.int32)
        sums += (a * b) >> (12 - octave)
    return tl.where(level == -128, 0, sums & 0xFFFE)
