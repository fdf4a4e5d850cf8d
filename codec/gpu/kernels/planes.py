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
def _load_words(at, index, live, WIDTH: tl.constexpr):
    if WIDTH == 1:
        words = tl.load(tl.multiple_of(at.to(tl.pointer_type(tl.uint8)), 16) + index, mask=live, other=0)
        return words.to(tl.uint32)
    elif WIDTH == 2:
        words = tl.load(tl.multiple_of(at.to(tl.pointer_type(tl.uint16)), 16) + index, mask=live, other=0)
        return words.to(tl.uint32)
    elif WIDTH == 4:
        return tl.load(tl.multiple_of(at.to(tl.pointer_type(tl.uint32)), 16) + index, mask=live, other=0)
    else:
        return tl.load(tl.multiple_of(at.to(tl.pointer_type(tl.uint64)), 16) + index, mask=live, other=0)


@triton.jit
def split_kernel(
    table, FIELDS: tl.constexpr, WIDTH: tl.constexpr, BASE_WIDTH: tl.constexpr, PREDICTOR: tl.constexpr, TILE: tl.constexpr
):
    """Planes of all elements, or of a sample's. Grid: rows of the table, tiles."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    count = tl.load(row + 2).to(tl.int32)
    first = tl.program_id(1) * TILE
    if first >= count:
        return
    octave = tl.load(row + 7).to(tl.int32)
    rotation = tl.load(row + 6).to(tl.int32)
    place = first + tl.arange(0, TILE)
    live = place < count
    index = _sampled(place, tl.load(row + 3).to(tl.int32))
    x = _load_words(tl.load(row), index, live, WIDTH)
    if PREDICTOR == LEVELS or PREDICTOR == BASE_ONLY:
        level_base = tl.load(row + 13).to(tl.int32)
        if PREDICTOR == BASE_ONLY:
            p = tl.zeros([TILE], tl.int32) + level_base
        else:
            rows = tl.load(row + 8).to(tl.pointer_type(tl.int8))
            columns = tl.load(row + 9).to(tl.pointer_type(tl.int8))
            row_count = tl.load(row + 10).to(tl.int32)
            column_count = tl.load(row + 11).to(tl.int32)
            column = tl.load(row + 12).to(tl.int32)
            products = tl.load(row + 14).to(tl.int32)
            p = predicted(
                index, live, rows, columns, row_count, column_count, column, level_base, products, octave
            )
        x = rotate(add_to_top(rotate(x, 1, WIDTH), 0 - p, WIDTH), rotation - 1, WIDTH)
    else:
        if PREDICTOR != NONE:
            x = subtract(x, _load_words(tl.load(row + 1), index, live, BASE_WIDTH), octave != 0, PREDICTOR, WIDTH)
        x = rotate(x, rotation, WIDTH)
    planes = tl.multiple_of(tl.load(row + 4).to(tl.pointer_type(tl.uint8)), 16)
    plane_stride = tl.multiple_of(tl.load(row + 5), 16)
    for k in tl.static_range(WIDTH):
        tl.store(planes + k * plane_stride + place, (x >> (8 * k)).to(tl.uint8), mask=live)


@triton.jit
def join_kernel(
    table, FIELDS: tl.constexpr, WIDTH: tl.constexpr, BASE_WIDTH: tl.constexpr, PREDICTOR: tl.constexpr, TILE: tl.constexpr
):
    """The exact inverse of split_kernel, of all elements. Grid: rows of the table, tiles."""
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    count = tl.load(row + 2).to(tl.int32)
    first = tl.program_id(1) * TILE
    if first >= count:
        return
    octave = tl.load(row + 7).to(tl.int32)
    rotation = tl.load(row + 6).to(tl.int32)
    index = first + tl.arange(0, TILE)
    live = index < count
    planes = tl.multiple_of(tl.load(row + 4).to(tl.pointer_type(tl.uint8)), 16)
    plane_stride = tl.multiple_of(tl.load(row + 5), 16)
    if WIDTH == 8:
        x = tl.zeros([TILE], tl.uint64)
    else:
        x = tl.zeros([TILE], tl.uint32)
    for k in tl.static_range(WIDTH):
        octets = tl.load(planes + k * plane_stride + index, mask=live, other=0)
        x |= octets.to(x.dtype) << (8 * k)
    if PREDICTOR == LEVELS or PREDICTOR == BASE_ONLY:
        level_base = tl.load(row + 13).to(tl.int32)
        if PREDICTOR == BASE_ONLY:
            p = tl.zeros([TILE], tl.int32) + level_base
        else:
            rows = tl.load(row + 8).to(tl.pointer_type(tl.int8))
            columns = tl.load(row + 9).to(tl.pointer_type(tl.int8))
            row_count = tl.load(row + 10).to(tl.int32)
            column_count = tl.load(row + 11).to(tl.int32)
            column = tl.load(row + 12).to(tl.int32)
            products = tl.load(row + 14).to(tl.int32)
            p = predicted(
                index, live, rows, columns, row_count, column_count, column, level_base, products, octave
            )
        turned = rotate(x, 8 * WIDTH - (rotation - 1) & (8 * WIDTH - 1), WIDTH)
        x = rotate(add_to_top(turned, p, WIDTH), 8 * WIDTH - 1, WIDTH)
    else:
        x = rotate(x, 8 * WIDTH - rotation & (8 * WIDTH - 1), WIDTH)
        if PREDICTOR != NONE:
            x = add(x, _load_words(tl.load(row + 1), index, live, BASE_WIDTH), octave != 0, PREDICTOR, WIDTH)
    at = tl.load(row)
    if WIDTH == 1:
        tl.store(tl.multiple_of(at.to(tl.pointer_type(tl.uint8)), 16) + index, x.to(tl.uint8), mask=live)
    elif WIDTH == 2:
        tl.store(tl.multiple_of(at.to(tl.pointer_type(tl.uint16)), 16) + index, x.to(tl.uint16), mask=live)
    elif WIDTH == 4:
        tl.store(tl.multiple_of(at.to(tl.pointer_type(tl.uint32)), 16) + index, x, mask=live)
    else:
        tl.store(tl.multiple_of(at.to(tl.pointer_type(tl.uint64)), 16) + index, x, mask=live)
