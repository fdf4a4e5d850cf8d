"""Header, frame header, index and trailer: what docs/format.md says a reader must reject."""

from __future__ import annotations

import pytest

from s4weights.codec._native import crc32c
from s4weights.codec.container import (
    FRAME_HEADER_BYTES,
    HEADER_BYTES,
    TRAILER_BYTES,
    FrameHeader,
    LogicalETag,
    Trailer,
    check_header,
    looks_like_trailer,
    make_header,
    make_index,
    parse_index,
)
from s4weights.codec.container.index import _about
from s4weights.codec.errors import (
    BadMagic,
    ChecksumMismatch,
    FormatError,
    LimitExceeded,
    Truncated,
    UnsupportedVersion,
)
from s4weights.codec.limits import MAX_FRAME_BYTES, MAX_INDEX_BYTES
from s4weights.codec.types import ElementType, Layout, Predictor

FRAME = FrameHeader(
    element=ElementType.BF16,
    predictor=Predictor.LEVELS,
    layout=Layout.ROTATED_3,
    planes=2,
    start=4096,
    logical_bytes=1000,
    payload_bytes=700,
    digest=0x0123456789ABCDEF,
    payload_crc=0xDEADBEEF,
)


def resealed(data: bytes, offset: int, value: bytes, crc_at: int) -> bytes:
    """Change bytes and make the checksum at crc_at right again, so that the field itself is judged."""
    changed = bytearray(data)
    changed[offset : offset + len(value)] = value
    changed[crc_at : crc_at + 4] = crc32c(bytes(changed[:crc_at])).to_bytes(4, "little")
    return bytes(changed)


def test_the_published_crc32c_vector():
    assert crc32c(b"123456789") == 0xE3069283


def test_header_round_trip():
    assert len(make_header()) == HEADER_BYTES
    check_header(make_header())


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", Truncated),
        (make_header()[:15], Truncated),
        (b"PK" + make_header()[2:], BadMagic),
        (make_header()[:8] + b"\x02" + make_header()[9:], ChecksumMismatch),
        (resealed(make_header(), 8, b"\x02", 12), UnsupportedVersion),
        (resealed(make_header(), 10, b"\x01", 12), UnsupportedVersion),
    ],
)
def test_a_wrong_header_is_named(data, error):
    with pytest.raises(error, match="container header"):
        check_header(data)


def test_frame_header_round_trip():
    data = FRAME.to_bytes()
    assert len(data) == FRAME_HEADER_BYTES
    assert FrameHeader.parse(data) == FRAME


@pytest.mark.parametrize(
    ("offset", "value", "error"),
    [
        (0, b"S4FX", BadMagic),
        (4, b"\xff", UnsupportedVersion),
        (5, b"\x06", UnsupportedVersion),
        (6, b"\x09", UnsupportedVersion),
        (7, b"\x03", FormatError),
        (16, (0).to_bytes(4, "little"), LimitExceeded),
        (16, (MAX_FRAME_BYTES + 2).to_bytes(4, "little"), LimitExceeded),
        (16, (999).to_bytes(4, "little"), FormatError),
        (20, (1001).to_bytes(4, "little"), LimitExceeded),
        (20, b"\xff\xff\xff\xff", LimitExceeded),
    ],
)
def test_a_wrong_frame_header_is_named(offset, value, error):
    with pytest.raises(error, match="frame 7"):
        FrameHeader.parse(resealed(FRAME.to_bytes(), offset, value, 36), where="frame 7")


@pytest.mark.parametrize("bit", range(FRAME_HEADER_BYTES * 8))
def test_every_flipped_bit_of_a_frame_header_is_found(bit):
    data = bytearray(FRAME.to_bytes())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FormatError):
        FrameHeader.parse(data)


def test_a_raw_frame_must_store_its_logical_bytes():
    raw = FrameHeader(ElementType.BF16, Predictor.NONE, Layout.RAW, 0, 0, 1000, 999, 0, 0)
    with pytest.raises(FormatError, match="raw bytes"):
        FrameHeader.parse(raw.to_bytes())


def test_a_raw_frame_has_no_predictor():
    raw = FrameHeader(ElementType.BF16, Predictor.LEVELS, Layout.RAW, 0, 0, 1000, 1000, 0, 0)
    with pytest.raises(FormatError, match="no predictor"):
        FrameHeader.parse(raw.to_bytes())


@pytest.mark.parametrize("text", ["d41d8cd98f00b204e9800998ecf8427e", "d41d8cd98f00b204e9800998ecf8427e-10000"])
def test_etag_round_trip(text):
    assert str(LogicalETag.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "x" * 32, "d41d8cd98f00b204e9800998ecf8427e-0", '"d41d8cd98f00b204e9800998ecf8427e"']
)
def test_a_wrong_etag_is_named(text):
    with pytest.raises(FormatError, match="ETag"):
        LogicalETag.parse(text)


def index_and_trailer(logical=(1000, 500), stored=(740, 540), about=None, **changes):
    index = make_index(logical, stored, about or {"kind": "safetensors"})
    fields = {
        "logical_bytes": sum(logical),
        "stored_bytes": HEADER_BYTES + sum(stored) + len(index) + TRAILER_BYTES,
        "index_offset": HEADER_BYTES + sum(stored),
        "index_bytes": len(index),
        "frames": len(logical),
        "digest": bytes(range(16)),
        "etag": LogicalETag(bytes(16), 3),
    }
    return index, Trailer(**{**fields, **changes})


def test_trailer_round_trip():
    _, trailer = index_and_trailer()
    data = trailer.to_bytes()
    assert len(data) == TRAILER_BYTES
    assert looks_like_trailer(data)
    assert Trailer.parse(b"before" + data, object_bytes=trailer.stored_bytes) == trailer


def test_a_trailer_of_another_length_of_object_is_truncated():
    _, trailer = index_and_trailer()
    with pytest.raises(Truncated, match="stored bytes"):
        Trailer.parse(trailer.to_bytes(), object_bytes=trailer.stored_bytes - 1)


@pytest.mark.parametrize("bit", range(TRAILER_BYTES * 8))
def test_every_flipped_bit_of_a_trailer_is_found(bit):
    _, trailer = index_and_trailer()
    data = bytearray(trailer.to_bytes())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FormatError):
        Trailer.parse(data, object_bytes=trailer.stored_bytes)


@pytest.mark.parametrize("offset", [0, 8, 2**63])
def test_an_index_outside_the_container_is_named(offset):
    _, trailer = index_and_trailer(index_offset=offset)
    with pytest.raises(FormatError, match="index"):
        Trailer.parse(trailer.to_bytes(), object_bytes=trailer.stored_bytes)


def test_index_finds_the_frames_of_a_range():
    index = parse_index(*index_and_trailer())
    assert [span.number for span in index.spans()] == [0, 1]
    assert [span.number for span in index.spans(999, 1)] == [0]
    assert [span.number for span in index.spans(1000, 1)] == [1]
    assert [span.number for span in index.spans(999, 2)] == [0, 1]
    assert index.spans(1500, 1) == []
    second = index.span(1)
    assert (second.start, second.logical_bytes, second.stored_start, second.stored_bytes) == (
        1000,
        500,
        756,
        540,
    )


def test_an_empty_body_has_an_index_without_frames():
    index = parse_index(*index_and_trailer((), ()))
    assert len(index) == 0
    assert index.spans() == []


def test_every_flipped_bit_of_an_index_is_found():
    data, trailer = index_and_trailer()
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError):
            parse_index(changed, trailer)


@pytest.mark.case(40)
def test_an_index_that_claims_gigabytes_allocates_nothing():
    data, trailer = index_and_trailer()
    claimed = data[:8] + (MAX_INDEX_BYTES + 1).to_bytes(8, "little") + data[16:]
    with pytest.raises(LimitExceeded):
        parse_index(claimed, trailer)


@pytest.mark.parametrize(
    "changes",
    [{"frames": 3}, {"logical_bytes": 1501}, {"index_offset": HEADER_BYTES + 1281}],
    ids=lambda one: next(iter(one)),
)
def test_an_index_that_does_not_add_up_is_named(changes):
    with pytest.raises(FormatError, match="expected"):
        parse_index(*index_and_trailer(**changes))


def test_a_frame_longer_than_the_limit_in_an_index_is_named():
    with pytest.raises(LimitExceeded, match="frames of 1 to"):
        parse_index(*index_and_trailer((MAX_FRAME_BYTES + 1,), (740,)))


def test_an_index_of_many_empty_values_is_refused_before_it_is_parsed():
    about = b'{"x":[' + b"{}," * 2_000_000 + b"0]}"
    with pytest.raises(LimitExceeded, match="brackets and commas"):
        _about(about)
