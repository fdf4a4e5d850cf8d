"""GDeflate: what a reader makes of its pages, and what it rejects; the same in both engines."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from s4weights.codec.engines import Engine, NativeEngine, ReferenceEngine
from s4weights.codec.errors import ChecksumMismatch, FormatError, LimitExceeded, Truncated
from s4weights.codec.types import ElementType, Layout, Mode, Predictor
from tests.codec.entropy.gdeflate_encoder import FIXED, Bits, encode_page, encode_plane, put_tokens

each_engine = pytest.mark.parametrize("engine", [NativeEngine(), ReferenceEngine()], ids=lambda one: one.name)
BF16 = ElementType.BF16


def decode_plane(engine: Engine, stored: bytes, n: int, element: ElementType = ElementType.U8) -> bytes:
    payload = struct.pack("<B3xI", Mode.GDEFLATE, len(stored)) + stored
    return bytes(engine.decode(payload, element, Predictor.NONE, Layout.PLANES, 1, n))


def decode_page(engine: Engine, page: bytes, n: int) -> bytes:
    return decode_plane(engine, struct.pack("<I", len(page)) + page, n)


def skewed(n: int) -> bytes:
    return np.random.default_rng(n).geometric(0.3, n).clip(0, 255).astype(np.uint8).tobytes()


@each_engine
@pytest.mark.parametrize("longest", [0, 258, 70_000], ids=["literals", "matches", "long matches"])
@pytest.mark.parametrize("kinds", [(0,), (1,), (2,), (0, 2, 1, 0), (2, 2, 2)], ids=str)
@pytest.mark.parametrize("n", [1, 31, 32, 33, 1_000])
def test_pages_of_every_kind_of_block(engine, kinds, longest, n):
    for data in (skewed(n), bytes(n), (b"again and " * n)[:n]):
        assert decode_page(engine, encode_page(data, kinds=kinds, longest=longest), n) == data


@each_engine
@pytest.mark.parametrize("n", [65_535, 65_536, 65_537, 2 * 65_536 + 5])
def test_planes_of_pages(engine, n):
    data = (skewed(300) * (n // 300 + 1))[:n]
    for element in (ElementType.U8, ElementType.BYTES):
        assert decode_plane(engine, encode_plane(data), n, element) == data


@each_engine
def test_planes_of_floats(engine):
    words = np.random.default_rng(0).normal(size=3_000).astype("<f4").view("<u4")
    turned = words << 1 | words >> 31
    planes = [encode_plane((turned >> 8 * k).astype(np.uint8).tobytes()) for k in range(4)]
    head = b"".join(struct.pack("<B3xI", Mode.GDEFLATE, len(plane)) for plane in planes)
    payload = head + b"".join(planes)
    found = engine.decode(payload, ElementType.F32, Predictor.NONE, Layout.ROTATED_1, 4, words.nbytes)
    assert found == words.tobytes()


def bits(*events: tuple[int, int, int], size: int = 0) -> bytes:
    """A page of lane, value and number of bits, filled up to so many bytes."""
    made = Bits()
    for event in events:
        made.put(*event)
    return made.words().ljust(size, b"\0")


def fixed(*tokens: int | tuple[int, int], kind: int = 1) -> bytes:
    made = Bits()
    made.put(0, 1 | kind << 1, 3)
    put_tokens(made, tokens, *FIXED)
    return made.words()


def dynamic(own: list[int], *lengths: tuple[int, int, int], literals: int = 257, distances: int = 1) -> bytes:
    """Code lengths of the precode in stored order, then what lanes say."""
    head = [(0, 1 | 2 << 1, 3), (0, literals - 257, 5), (0, distances - 1, 5), (0, 15, 4)]
    return bits(*head, *((lane, length, 3) for lane, length in enumerate(own)), *lengths)


ZERO_AND_REPEAT = [1, 0, 0, 1] + [0] * 15  # the precode has 0: length 0, 1: repeat
EMPTY = [0] * 19
THREE_OF_ONE_BIT = [1, 1, 1] + [0] * 16

REJECTED: dict[str, tuple[Callable[[], bytes], int, type[FormatError]]] = {
    "a block of kind 3": (lambda: bits((0, 7, 3)), 4, FormatError),
    "a match from before the page": (lambda: fixed(7, 8, 9, (4, 4)), 7, FormatError),
    "a match that goes on behind the page": (lambda: fixed(7, (300, 1)), 300, FormatError),
    "more literals than bytes": (lambda: fixed(7, 8, 9), 2, FormatError),
    "fewer literals than bytes": (lambda: fixed(7, 8, 9), 4, FormatError),
    "more stored bytes than the page has": (lambda: bits((0, 1, 3), (0, 400, 16)), 399, FormatError),
    "symbol 286": (lambda: bits((0, 3, 3), (0, 0b01100011, 8)), 9, FormatError),
    "a repetition of none": (lambda: dynamic(ZERO_AND_REPEAT, (0, 1, 1), (0, 0, 2)), 9, FormatError),
    "a precode without codes": (lambda: dynamic(EMPTY), 9, FormatError),
    "three codes of one bit": (lambda: dynamic(THREE_OF_ONE_BIT), 9, FormatError),
    "more repetitions than lengths": (
        lambda: dynamic([0, 0, 1, 1] + [0] * 15, *((lane, 0b1111_1111, 8) for lane in range(2))),
        9,
        FormatError,
    ),
    "a word too many": (lambda: fixed(7) + bytes(4), 1, ChecksumMismatch),
    "a word too few": (lambda: encode_page(bytes(range(200)), kinds=(0,))[:-4], 200, Truncated),
    "blocks without end": (lambda: bits(*([(0, 0, 19)] * 300)), 9, LimitExceeded),
}


@each_engine
@pytest.mark.parametrize("name", REJECTED)
def test_what_a_page_must_not_say(engine, name):
    make, n, error = REJECTED[name]
    with pytest.raises(error) as caught:
        decode_page(engine, make(), n)
    assert type(caught.value) is error


def lengths(*pages: int, rest: int = 300) -> bytes:
    return struct.pack(f"<{len(pages)}I", *pages) + bytes(rest)


@each_engine
@pytest.mark.parametrize(
    ("stored", "n"),
    [
        (b"", 5),
        (lengths(300)[:3], 5),
        (lengths(124, rest=124), 5),
        (lengths(130, rest=130), 5),
        (lengths(304, rest=300), 5),
        (lengths(296, rest=300), 5),
        (lengths(5 + 1_028, rest=5 + 1_028), 5),
        (lengths(1_032, rest=1_032), 5),
        (lengths(300), 65_537),
    ],
    ids=["empty", "cut", "too short", "no words", "too long", "left over", "odd", "surplus", "one page of two"],
)
def test_what_a_page_table_must_not_say(engine, stored, n):
    with pytest.raises(FormatError):
        decode_plane(engine, stored, n)


@each_engine
def test_a_page_cut_short_or_changed_is_an_error_or_other_bytes(engine):
    """GDeflate has no checksum of its own: the frame's hash finds what decodes to something else."""
    data = skewed(700)
    page = encode_page(data, kinds=(2, 1))
    for at in range(0, 8 * len(page), 61):
        changed = bytearray(page)
        changed[at // 8] ^= 1 << at % 8
        try:
            assert len(decode_page(engine, bytes(changed), len(data))) == len(data)
        except FormatError:
            continue
    for end in range(128, len(page), 4):
        with pytest.raises(FormatError):
            decode_page(engine, page[:end], len(data))
