"""Elements to byte planes and back, with what predicts them taken away and given back on the way.

Bound by memory: each element is read once and written once, in order.
"""

import triton
import triton.language as tl

from .words import BASE_ONLY, LEVELS, NONE, add, add_to_top, predicted, rotate, subtract

FIELDS = (
    "elements",  # address of the frame's; aligned to 16 bytes
    "base",  # of the base's, aligned to 16 bytes; 0 without one
    "count",  # elements to be split or joined
    "stride",  # runs of 128 elements are taken one in so many: those of a sample; 0: all elements
    "planes",  # address of plane 0
    "plane_stride",  # bytes from one plane to the next, a multiple of 16
    "rotation",
    "octave_bits",
    "rows",  # addresses of the levels
    "columns",
    "row_count",
    "column_count",
    "column",
    "level_base",
    "products",
)
RUN = tl.constexpr(128)
_SHIFT = tl.constexpr(13)


@triton.jit
def _sampled(place, stride):
    """Number of the element that stands at this place of the sample."""
    group = place // RUN
    run = stride * group + (group * _SHIFT) % tl.maximum(stride, 1)
    return tl.where(stride == 0, place, run * RUN + place % RUN)


@triton.jit
def _words_at(at, WIDTH: tl.constexpr):
    """Address to pointer."""
    if WIDTH == 1:
        return tl.multiple_of(at.to(tl.pointer_type(tl.uint8)), 16)
    elif WIDTH == 2:
        return tl.multiple_of(at.to(tl.pointer_type(tl.uint16)), 16)
    elif WIDTH == 4:
        return tl.multiple_of(at.to(tl.pointer_type(tl.uint32)), 16)
    else:
        return tl.multiple_of(at.to(tl.pointer_type(tl.uint64)), 16)


@triton.jit
def _load(pointers, live, FULL: tl.constexpr):
    """FULL: all are live. A mask that may end anywhere would keep loads from being wide."""
    if FULL:
        return tl.load(pointers)
    else:
        return tl.load(pointers, mask=live, other=0)


@triton.jit
def _store(pointers, values, live, FULL: tl.constexpr):
    if FULL:
        tl.store(pointers, values)
    else:
        tl.store(pointers, values, mask=live)


@triton.jit
def _load_words(at, index, live, FULL: tl.constexpr, WIDTH: tl.constexpr):
    words = _load(_words_at(at, WIDTH) + index, live, FULL)
    if WIDTH < 4:
        words = words.to(tl.uint32)
    return words


@triton.jit
def _from_levels(row, index, live, octave, PREDICTOR: tl.constexpr, TILE: tl.constexpr):
    """P, before it is taken mod 65536."""
    base = tl.load(row + 13).to(tl.int32)
    if PREDICTOR == BASE_ONLY:
        return tl.zeros([TILE], tl.int32) + base
    else:
        return predicted(
            index,
            live,
            tl.load(row + 8).to(tl.pointer_type(tl.int8)),
            tl.load(row + 9).to(tl.pointer_type(tl.int8)),
            tl.load(row + 10).to(tl.int32),
            tl.load(row + 11).to(tl.int32),
            tl.load(row + 12).to(tl.int32),
            base,
            tl.load(row + 14).to(tl.int32),
            octave,
        )


@triton.jit
def _split_tile(
    row,
    place,
    live,
    FULL: tl.constexpr,
    WIDTH: tl.constexpr,
    BASE_WIDTH: tl.constexpr,
    PREDICTOR: tl.constexpr,
    TILE: tl.constexpr,
):
    octave = tl.load(row + 7).to(tl.int32)
    rotation = tl.load(row + 6).to(tl.int32)
    stride = tl.load(row + 3).to(tl.int32)
    if FULL:
        index = place
    else:
        index = _sampled(place, stride)
    x = _load_words(tl.load(row), index, live, FULL, WIDTH)
    if PREDICTOR == LEVELS or PREDICTOR == BASE_ONLY:
        p = _from_levels(row, index, live, octave, PREDICTOR, TILE)
        x = rotate(add_to_top(rotate(x, 1, WIDTH), 0 - p, WIDTH), rotation - 1, WIDTH)
    else:
        if PREDICTOR != NONE:
            b = _load_words(tl.load(row + 1), index, live, FULL, BASE_WIDTH)
            x = subtract(x, b, octave != 0, PREDICTOR, WIDTH)
        x = rotate(x, rotation, WIDTH)
    planes = tl.load(row + 4)
    plane_stride = tl.load(row + 5)
    for k in tl.static_range(WIDTH):
        plane = _words_at(planes + k * plane_stride, 1)
        _store(plane + place, (x >> (8 * k)).to(tl.uint8), live, FULL)


@triton.jit
def split_kernel(
    table,
    FIELDS: tl.constexpr,
    WIDTH: tl.constexpr,
    BASE_WIDTH: tl.constexpr,
    PREDICTOR: tl.constexpr,
    TILE: tl.constexpr,
):
    """Planes of all elements, or of a sample's. Grid: rows of the table, tiles."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    count = tl.load(row + 2).to(tl.int32)
    first = tl.program_id(1) * TILE
    if first >= count:
        return
    place = first + tl.arange(0, TILE)
    if (first + TILE <= count) & (tl.load(row + 3) == 0):
        _split_tile(row, place, place < count, True, WIDTH, BASE_WIDTH, PREDICTOR, TILE)
    else:
        _split_tile(row, place, place < count, False, WIDTH, BASE_WIDTH, PREDICTOR, TILE)


@triton.jit
def _join_tile(
    row,
    index,
    live,
    FULL: tl.constexpr,
    WIDTH: tl.constexpr,
    BASE_WIDTH: tl.constexpr,
    PREDICTOR: tl.constexpr,
    TILE: tl.constexpr,
):
    octave = tl.load(row + 7).to(tl.int32)
    rotation = tl.load(row + 6).to(tl.int32)
    planes = tl.load(row + 4)
    plane_stride = tl.load(row + 5)
    if WIDTH == 8:
        x = tl.zeros([TILE], tl.uint64)
    else:
        x = tl.zeros([TILE], tl.uint32)
    for k in tl.static_range(WIDTH):
        octets = _load(_words_at(planes + k * plane_stride, 1) + index, live, FULL)
        x |= octets.to(x.dtype) << (8 * k)
    if PREDICTOR == LEVELS or PREDICTOR == BASE_ONLY:
        p = _from_levels(row, index, live, octave, PREDICTOR, TILE)
        turned = rotate(x, (8 * WIDTH - (rotation - 1)) & (8 * WIDTH - 1), WIDTH)
        x = rotate(add_to_top(turned, p, WIDTH), 8 * WIDTH - 1, WIDTH)
    else:
        x = rotate(x, (8 * WIDTH - rotation) & (8 * WIDTH - 1), WIDTH)
        if PREDICTOR != NONE:
            b = _load_words(tl.load(row + 1), index, live, FULL, BASE_WIDTH)
            x = add(x, b, octave != 0, PREDICTOR, WIDTH)
    pointers = _words_at(tl.load(row), WIDTH) + index
    _store(pointers, x.to(pointers.dtype.element_ty), live, FULL)


@triton.jit
def join_kernel(
    table,
    FIELDS: tl.constexpr,
    WIDTH: tl.constexpr,
    BASE_WIDTH: tl.constexpr,
    PREDICTOR: tl.constexpr,
    TILE: tl.constexpr,
):
    """The exact inverse of split_kernel, of all elements. Grid: rows of the table, tiles."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    count = tl.load(row + 2).to(tl.int32)
    first = tl.program_id(1) * TILE
    if first >= count:
        return
    index = first + tl.arange(0, TILE)
    if first + TILE <= count:
        _join_tile(row, index, index < count, True, WIDTH, BASE_WIDTH, PREDICTOR, TILE)
    else:
        _join_tile(row, index, index < count, False, WIDTH, BASE_WIDTH, PREDICTOR, TILE)
