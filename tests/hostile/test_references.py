"""Frames that refer to what is not there, behind them, in a circle, or not what it was: named, and never wrong bytes."""

from __future__ import annotations

import io

import pytest

from s4weights.codec._native import crc32c
from s4weights.codec.container import FRAME_HEADER_BYTES, BaseBody, FrameHeader, pack_reference, read_bases
from s4weights.codec.decode import check_reference, decode_frame, iter_body, read_reference
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import NativeEngine
from s4weights.codec.errors import (
    ChecksumMismatch,
    FormatError,
    LimitExceeded,
    MissingBase,
    S4WeightsError,
    UnsupportedVersion,
)
from s4weights.codec.limits import MAX_BASE_DEPTH, MAX_BASES
from s4weights.codec.types import Base, BaseKind, BaseRange, ElementType, Frame, Reference
from tests.codec.samples import normal

ENGINE = NativeEngine()
DATA = normal(20_000)
BYTES = len(DATA)


def referring(start: int, reference: Reference, data: bytes = DATA, kind: BaseKind = BaseKind.SAME) -> bytes:
    """A frame that is a copy of a base."""
    coded = encode_frame(Frame(start, ElementType.BF16, data, bases=(Base(reference, kind, data),)), ENGINE)
    assert coded.base == reference
    return coded.header + bytes(coded.payload)


def plain(start: int, data: bytes = DATA) -> bytes:
    coded = encode_frame(Frame(start, ElementType.BF16, data), ENGINE)
    return coded.header + bytes(coded.payload)


def read_all(*frames: bytes) -> list[bytes]:
    """The bodies of frames up to where the container breaks off."""
    head = Encoder().start()
    found: list[bytes] = []

    def read_base(needed: BaseRange) -> bytes:
        assert needed.reference.number == 0
        return b"".join(found)[needed.reference.start :][: needed.length]

    try:
        for body in iter_body(io.BytesIO(head + b"".join(frames)), ENGINE, read_base=read_base):
            found.append(body)
    except FormatError as error:
        if "expected 4 bytes, found 0" not in str(error):
            raise
    return found


def test_a_copy_of_what_came_before_is_read():
    assert read_all(plain(0), referring(BYTES, Reference(0, 0)), referring(2 * BYTES, Reference(0, 0))) == [DATA] * 3


@pytest.mark.parametrize("start", [1, 2, BYTES, 2 * BYTES, 2**63])
def test_a_range_that_ends_behind_the_frames_start_is_named(start):
    with pytest.raises(FormatError, match=f"expected a range in the {BYTES} bytes of the body before the frame"):
        read_all(plain(0), referring(BYTES, Reference(0, start)))


@pytest.mark.parametrize("start", [1, BYTES - 1, BYTES, BYTES + 1, 2 * BYTES - 1])
def test_a_range_that_touches_a_frame_with_a_base_in_this_body_is_named(start):
    frames = plain(0), referring(BYTES, Reference(0, 0)), plain(2 * BYTES), referring(3 * BYTES, Reference(0, start))
    with pytest.raises(FormatError, match=f"needs none of it, found one at byte {BYTES}"):
        read_all(*frames)
    assert read_all(*frames[:3], referring(3 * BYTES, Reference(0, 2 * BYTES))) == [DATA] * 4


def test_without_the_base_the_error_says_which():
    stored = referring(0, Reference(3, 80))
    with pytest.raises(MissingBase, match="number=3, start=80"):
        decode_frame(stored, ENGINE)
    with pytest.raises(MissingBase, match="number=3"):
        list(iter_body(io.BytesIO(Encoder().start() + stored), ENGINE))


@pytest.mark.parametrize("size", [0, 2, BYTES - 2, BYTES + 2])
def test_a_base_of_another_length_is_named(size):
    with pytest.raises(FormatError, match=f"expected a base of {BYTES} bytes"):
        decode_frame(referring(0, Reference(1, 0)), ENGINE, base=bytes(size))


def test_a_base_with_other_bytes_is_never_wrong_bytes():
    changed = bytes([DATA[0] ^ 1]) + DATA[1:]
    with pytest.raises(ChecksumMismatch):
        decode_frame(referring(0, Reference(1, 0)), ENGINE, base=changed)
    near = encode_frame(
        Frame(0, ElementType.BF16, changed, bases=(Base(Reference(1, 0), BaseKind.SAME, DATA),)), ENGINE
    )
    assert near.base is not None
    stored = near.header + bytes(near.payload)
    assert decode_frame(stored, ENGINE, base=DATA) == changed
    with pytest.raises(ChecksumMismatch):
        decode_frame(stored, ENGINE, base=changed)


def test_a_reference_is_read_only_where_its_checksum_says_so():
    stored = bytearray(referring(0, Reference(1, 8)))
    assert read_reference(stored) == BaseRange(Reference(1, 8), BaseKind.SAME, BYTES)
    for place in range(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + 16):
        stored[place] ^= 1
        with pytest.raises(ChecksumMismatch):
            read_reference(stored)
        stored[place] ^= 1
    with pytest.raises(FormatError, match="expected"):
        read_reference(stored[:-1])
    assert read_reference(plain(0)) is None


def test_reserved_bytes_of_a_reference_are_named():
    payload = bytearray(pack_reference(Reference(1, 0)))
    payload[5] = 1
    header = FrameHeader.parse(referring(0, Reference(1, 0)))
    fields = {name: getattr(header, name) for name in FrameHeader.__slots__} | {"payload_crc": crc32c(bytes(payload))}
    with pytest.raises(UnsupportedVersion, match="zero bytes"):
        read_reference(FrameHeader(**fields).to_bytes() + payload)


BASES = (BaseBody("a", 1_000, bytes(16)), BaseBody("b", 50, bytes(16)))


@pytest.mark.parametrize(
    ("number", "start", "length", "error"),
    [
        (1, 0, 1_000, None),
        (1, 1, 1_000, FormatError),
        (2, 0, 51, FormatError),
        (2, 2**64 - 1, 2, FormatError),
        (3, 0, 1, MissingBase),
        (0, 0, 70, None),
        (0, 1, 70, FormatError),
    ],
)
def test_ranges_are_checked_against_the_bases_of_the_index(number, start, length, error):
    needed = BaseRange(Reference(number, start), BaseKind.SAME, length)
    if error is None:
        check_reference(needed, BASES, frame_start=70)
    else:
        with pytest.raises(error, match="expected"):
            check_reference(needed, BASES, frame_start=70)


GOOD = {"key": "a", "size": 5, "digest": "00" * 16}


@pytest.mark.parametrize(
    "rows",
    [
        "bases",
        [None],
        [{}],
        [GOOD | {"size": -1}],
        [GOOD | {"size": "5"}],
        [GOOD | {"digest": "00"}],
        [GOOD | {"digest": "zz" * 16}],
        [GOOD | {"digest": "0 " * 16}],
        [GOOD | {"key": 7}],
        [GOOD | {"depth": -1}],
        [GOOD | {"depth": "0"}],
        [GOOD | {"bucket": 1}],
    ],
)
def test_bases_that_are_none_are_named(rows):
    with pytest.raises(FormatError, match="expected"):
        read_bases({"bases": rows})


def test_bases_are_bounded_in_number_and_depth():
    with pytest.raises(LimitExceeded, match="depth"):
        read_bases({"bases": [GOOD | {"depth": MAX_BASE_DEPTH}]})
    with pytest.raises(LimitExceeded, match="at most"):
        read_bases({"bases": [GOOD] * (MAX_BASES + 1)})
    body = BaseBody("a", 5, bytes(16), 3, "bucket", "version", "etag")
    assert read_bases({"bases": [body.member(), *[GOOD] * (MAX_BASES - 1)]})[0] == body
    assert read_bases({}) == ()


def test_an_encoder_takes_no_frame_whose_base_it_does_not_write():
    coded = encode_frame(Frame(0, ElementType.BF16, DATA, bases=(Base(Reference(2, 0), BaseKind.SAME, DATA),)), ENGINE)
    with pytest.raises(S4WeightsError, match="expected at most 1 bases"):
        Encoder(bases=BASES[:1]).add(coded)
    encoder = Encoder(bases=BASES)
    assert encoder.bases == ()
    encoder.add(coded)
    assert encoder.bases == BASES
