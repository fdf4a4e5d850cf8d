"""Forms: fields, then a file that streams, however the bytes arrive."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.form import Form, boundary_of

BOUNDARY = "----boundary7MA4"


def field(name: str, value: bytes, *, file_name: str | None = None) -> bytes:
    shown = f'; filename="{file_name}"' if file_name is not None else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{shown}\r\n'
    return head.encode() + (b"Content-Type: text/plain\r\n" if shown else b"") + b"\r\n" + value + b"\r\n"


def form_of(data: bytes, cuts: list[int] | None = None) -> Form:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or [])})

    async def pieces():
        for start, end in itertools.pairwise(edges):
            yield data[start:end]

    return Form(pieces(), BOUNDARY)


END = f"--{BOUNDARY}--\r\n".encode()
TRICKY = st.lists(
    st.sampled_from(
        [b"\r", b"\n", b"\r\n", b"--", b"\r\n--", BOUNDARY.encode(), b"\r\n--" + BOUNDARY.encode()[:-1], b"x"]
    )
).map(b"".join)


@given(file=st.binary(max_size=300) | TRICKY, cuts=st.lists(st.integers(0, 2000), max_size=20))
async def test_a_file_comes_back_whole_in_any_pieces(file, cuts):
    if f"\r\n--{BOUNDARY}".encode() in file:
        return
    data = field("Key", b"a/${filename}") + field("file", file, file_name="C:\\dir\\photo.png") + END + b"epilogue"
    form = form_of(data, cuts)
    assert await form.read_fields() == {"key": "a/${filename}"}
    assert form.file_name == "photo.png"
    assert b"".join([piece async for piece in form]) == file


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "MalformedPOSTRequest"),
        (b"nothing of the kind", "MalformedPOSTRequest"),
        (field("key", b"k"), "MalformedPOSTRequest"),
        (field("key", b"k") + END, "InvalidArgument"),
        (field("key", b"\xff") + field("file", b"x", file_name="f"), "MalformedPOSTRequest"),
        (f"--{BOUNDARY}x\r\n".encode(), "MalformedPOSTRequest"),
        (f"--{BOUNDARY}\r\nContent-Type: text/plain\r\n\r\nx\r\n".encode() + END, "MalformedPOSTRequest"),
        (field("key", b"x" * 30_000) + field("file", b"x", file_name="f"), "MaxPostPreDataLengthExceededError"),
        (field("a", b"x" * 15_000) * 2 + field("file", b"x", file_name="f"), "MaxPostPreDataLengthExceededError"),
        (field("a", b"x") * 101 + field("file", b"x", file_name="f"), "MalformedPOSTRequest"),
        (b"x" * 100_000, "MaxPostPreDataLengthExceededError"),
        (f"--{BOUNDARY}\r\n".encode() + b"A: b\r\n" * 10_000, "MaxPostPreDataLengthExceededError"),
    ],
)
async def test_what_is_no_form(data, code):
    with pytest.raises(S3Error, match=code):
        await form_of(data, [17, 400, 5000]).read_fields()


async def test_a_form_that_ends_within_its_file():
    form = form_of(field("key", b"k") + field("file", b"x" * 1000, file_name="f"))
    await form.read_fields()
    with pytest.raises(S3Error, match="MalformedPOSTRequest"):
        _ = [piece async for piece in form]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("multipart/form-data; boundary=abc", "abc"),
        ('Multipart/Form-Data; charset=utf-8; boundary="a b"', "a b"),
        ("multipart/form-data", None),
        ("application/xml", None),
        ("", None),
        ("multipart/form-data; boundary=" + "x" * 300, None),
    ],
)
def test_boundaries(text, expected):
    assert boundary_of(text) == expected
