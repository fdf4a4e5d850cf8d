"""numpy's files: .npy, several of them in one file, and .npz."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec.sniff import sniff
from s4weights.codec.types import Kind
from tests.codec.samples import pack, unpack
from tests.codec.segments.cutting import cut, is_found, named, typed_bytes
from tests.codec.segments.real_files import arrays, npy, npz

TYPES = {
    "f2": ("F16", 1),
    "f4": ("F32", 1),
    "f8": ("F64", 1),
    "c8": ("F32", 2),
    "c16": ("F64", 2),
    "?": ("BOOL", 1),
    "i1": ("I8", 1),
    "i2": ("I16", 1),
    "i4": ("I32", 1),
    "i8": ("I64", 1),
    "u1": ("U8", 1),
    "u2": ("U16", 1),
    "u4": ("U32", 1),
    "u8": ("U64", 1),
    "M8[ns]": ("I64", 1),
    "m8[s]": ("I64", 1),
    ">f2": ("U16", 1),
    ">f4": ("U32", 1),
    ">f8": ("U64", 1),
    ">c8": ("U32", 2),
    ">i2": ("U16", 1),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_type_in_every_version(tmp_path, dtype, version):
    element, pair = TYPES[dtype]
    values = np.arange(600).astype(dtype).reshape(20, 30)
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, values, version)
    body = (tmp_path / "a.npy").read_bytes()
    assert sniff(body) is Kind.NPY
    shape = (20, 30, 2) if pair == 2 else (20, 30)
    assert named(cut(body)) == {None: (element, values.nbytes, shape)}


def test_fortran_order_is_the_shape_of_the_memory():
    values = np.asfortranarray(np.arange(600.0).reshape(2, 30, 10))
    assert named(cut(npy(values))) == {None: ("F64", 4_800, (10, 30, 2))}


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 4, 5)])
def test_any_shape(shape):
    found = [one for one in cut(npy(np.ones(shape), np.ones(5))) if is_found(one)]
    expected = [shape] if np.prod(shape) else []
    assert [one.shape for one in found] == [*expected, (5,)]


def test_several_arrays_in_one_file():
    body = npy(np.ones((30, 40)), np.arange(7), np.array(["text", "more"]), np.ones(9, "f4")) + b"and more"
    assert [(one.element.name, one.length) for one in cut(body) if is_found(one)] == [
        ("F64", 9_600),
        ("I64", 56),
        ("F32", 36),
    ]
    assert unpack(pack(body)[0]) == body


STRUCTURED = np.zeros(50, dtype=[("a", "f4"), ("b", "i8")])


@pytest.mark.parametrize(
    "values", [np.array([{}, None], dtype=object), STRUCTURED, np.zeros(50, "V7"), np.zeros(9, "f16")], ids=str
)
def test_objects_and_structures_are_bytes(values):
    body = npy(values, allow_pickle=True)
    assert sniff(body) is Kind.NPY
    assert typed_bytes(cut(body)) == 0
    assert unpack(pack(body)[0]) == body


HEADERS = {
    "no shape": b"{'descr': '<f4', 'fortran_order': False}",
    "negative": b"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
    "an expression": b"{'descr': '<f4', 'fortran_order': False, 'shape': (2**9,)}",
    "a call": b"{'descr': __import__('os').system('false'), 'fortran_order': False, 'shape': (9,)}",
    "too many dimensions": b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1," * 500 + b")}",
    "deep": b"{'descr': '<f4', 'fortran_order': False, 'shape': " + b"(" * 9_000,
    "binary": bytes(range(256)),
    "nothing": b"",
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_make_no_sense(name):
    text = HEADERS[name]
    body = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(5_000)
    assert typed_bytes(cut(body)) == 0
    assert unpack(pack(body)[0]) == body


@pytest.mark.parametrize("length", [1 << 20, 0xFFFFFFFF])
def test_headers_that_claim_to_be_long_cost_nothing(length):
    body = b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little") + b"{'descr': '<f4'" + bytes(5_000)
    assert typed_bytes(cut(body)) == 0


def test_an_array_larger_than_the_file_reaches_its_end():
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999,)}"
    body = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(5_000)
    assert unpack(pack(body)[0]) == body


NAMES = {
    "f64": ("F64", 9_600, (30, 40)),
    "layer/big": ("U32", 4_000, (50, 20)),
    "fortran": ("F16", 1_200, (30, 20)),
    "complex": ("F32", 504, (7, 9, 2)),
    "bools": ("BOOL", 900, (900,)),
    "after": ("I64", 4_000, (500,)),
    "scalar": ("F64", 8, ()),
}


@pytest.mark.parametrize("one_way", [False, True], ids=["lengths in front", "descriptors"])
def test_every_array_of_an_npz(one_way):
    body = npz(one_way=one_way)
    assert sniff(body) is Kind.NPZ
    assert named(cut(body)) == NAMES
    assert set(arrays()) - set(NAMES) == {"text", "objects", "empty"}
    assert unpack(pack(body)[0]) == body


def test_a_compressed_npz_is_bytes():
    body = npz(compressed=True)
    assert sniff(body) is Kind.UNKNOWN
    assert unpack(pack(body)[0]) == body


def test_an_array_that_claims_more_than_its_entry_is_bytes():
    body = npz().replace(b"'shape': (500,), ", b"'shape': (9999,),")
    assert named(cut(body)) == {name: found for name, found in NAMES.items() if name != "after"}
