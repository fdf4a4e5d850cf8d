"""Bodies made to cost or to crash: each is cut within bounded time and memory, and none raises."""

from __future__ import annotations

import io
import pickle
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
import torch

from s4weights.codec import limits
from s4weights.codec.sniff import sniff
from s4weights.codec.types import Kind
from tests.codec.samples import pack, unpack
from tests.codec.segments.cutting import cut, is_found, typed_bytes
from tests.codec.segments.real_files import OneWay, torch_legacy, torch_zip

# A body of a megabyte may take this; one that costs more a byte holds a worker longer than its upload does.
MAX_SECONDS = 10
MAX_MEMORY_BYTES = 700 << 20
MIB = 1 << 20


def local(name: bytes, *, flags: int = 0, method: int = 0, length: int = 0, extra: bytes = b"") -> bytes:
    fixed = struct.pack(
        "<4sHHHHHIIIHH", b"PK\x03\x04", 20, flags, method, 0, 0, 0, length, length, len(name), len(extra)
    )
    return fixed + name + extra


def pickled_zip(data: bytes, rest: bytes = b"") -> bytes:
    return local(b"archive/data.pkl", length=len(data)) + data + rest


def legacy(main: bytes, keys: bytes = b"].", rest: bytes = b"") -> bytes:
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    return magic + pickle.dumps(1001, 2) + pickle.dumps({}, 2) + main + keys + rest


def header(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


MAIN = b"\x80\x02}(X\1\0\0\0ac_\n_rebuild\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0kX\3\0\0\0cpu%bNtQK\0%b\x85K\1\x85\x89N\x85tRu."
KEYS = b"\x80\x02](X\1\0\0\0ke."


BODIES: dict[str, Callable[[], bytes]] = {
    # zip
    "ends of entries that are none": lambda: local(b"a/data/0", flags=8) + b"PK\x07\x08" * (MIB // 4),
    "headers that are none": lambda: local(b"a/data/0", flags=8) + (b"PK\x03\x04" + b"\xff" * 40) * (MIB // 44),
    "entries without data": lambda: local(b"a/data/0") * (MIB // 38),
    "names of 64 KiB": lambda: local(b"a/data/0") + local(b"a/" + b"x" * 65_000) * 16,
    "a length of 2^64": lambda: (
        local(b"a/data/0", length=0xFFFFFFFF, extra=struct.pack("<HHQQ", 1, 16, (1 << 64) - 1, (1 << 64) - 1))
        + bytes(9_000)
    ),
    "a zip64 field cut short": lambda: local(b"a/data/0", length=0xFFFFFFFF, extra=b"\1\0\x10\0abc") + bytes(9_000),
    "zip64 fields without end": lambda: local(b"a/data/0", length=0xFFFFFFFF, extra=bytes(65_532)) + bytes(9_000),
    "a directory of 2^64": lambda: local(b"a/data/0") + b"PK\x06\x06" + b"\xff" * 8 + bytes(9_000),
    "directories without end": lambda: local(b"a/data/0") + (b"PK\x05\x06" + bytes(18)) * (MIB // 22),
    "archives without end": lambda: (local(b"a/data/0") + b"PK\x05\x06" + bytes(18)) * (MIB // 60),
    "a deflate bomb": lambda: local(b"a/data/0", method=8, flags=8) + b"\xed\xc1\x01\x01" + bytes(MIB),
    "names that climb": lambda: local(b"../../etc/data/0", length=9) + bytes(9) + local(b"/data/0", length=9) + bytes(9),
    "encrypted": lambda: local(b"a/data/0", flags=9) + np.random.default_rng(0).bytes(9_000),
    # pickles
    "a pickle that never ends": lambda: pickled_zip(b"N0" * (MIB // 2)),
    "a pickle of marks": lambda: pickled_zip(b"(" * MIB),
    "a pickle in pickles": lambda: legacy(b"N.", b"N." * (MIB // 2)),
    "small pickles without end": lambda: legacy(b"N.") * (MIB // 60),
    "a list within itself": lambda: pickled_zip(b"]q\0h\0a" + b"h\0h\0a0" * 100_000 + b"."),
    "pairs that are shared": lambda: pickled_zip(
        b"]q\0(" + b"]q\1(NNe" * 5_000 + b"e]q\2(" + b"cc\nOrderedDict\nh\0\x85R" * 30_000 + b"e."
    ),
    "keys in millions": lambda: legacy(MAIN % (b"K\1", b"K\1"), b"\x80\x02](" + b"X\1\0\0\0k" * 100_000 + b"e."),
    "a storage of 2^62": lambda: legacy(MAIN % (b"\x8a\x08" + bytes(7) + b"\x40", b"K\1"), KEYS, b"\xff" * 9_000),
    "a count of 2^63": lambda: legacy(MAIN % (b"K\1", b"K\1"), KEYS, bytes(7) + b"\x80" + bytes(9_000)),
    "keys that no tensor has": lambda: legacy(b"\x80\x02}.", KEYS, bytes(9_000)),
    "keys that are no list": lambda: legacy(MAIN % (b"K\1", b"K\1"), b"N.", bytes(9_000)),
    "a size of a thousand digits": lambda: legacy(MAIN % (b"\x8a\xff" + b"\x7f" * 255, b"K\1"), KEYS),
    # safetensors
    "a header of 2^63": lambda: header(b"{", 1 << 63) + bytes(9_000),
    "a header of 128 MiB that does not come": lambda: header(b'{"a":', limits.MAX_SAFETENSORS_HEADER_BYTES),
    "deep": lambda: header(b'{"a":' * (MIB // 5)),
    "deep lists": lambda: header(b'{"a":' + b"[" * MIB),
    "commas": lambda: header(b"{" + b"," * MIB + b"}"),
    "quotes": lambda: header(b"{" + b'"' * MIB + b"}"),
    "backslashes": lambda: header(b'{"' + b"\\" * MIB + b'"}'),
    "space": lambda: header(b"{" + b" " * MIB + b"}"),
    "space in a member": lambda: header(b'{"a":{"dtype"' + b" " * MIB + b'}}'),
    "digits": lambda: header(b'{"a":{"dtype":"F32","shape":[%b],"data_offsets":[0,%b]}}' % (b"9" * MIB, b"9" * MIB)),
    "a shape of a megabyte": lambda: header(
        b'{"a":{"dtype":"F32","shape":[%b1],"data_offsets":[0,4]}}' % (b"1," * (MIB // 2))
    ),
    "tensors at one place": lambda: header(
        b"{" + b",".join(b'"%d":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}' % number for number in range(20_000)) + b"}"
    )
    + bytes(9_000),
    # npy
    "arrays without end": lambda: (b"\x93NUMPY\1\0\x76\0" + b"{'descr':'|u1','fortran_order':False,'shape':(0,)}".ljust(118))
    * (MIB // 128),
    "a shape that multiplies to 10^1216": lambda: b"\x93NUMPY\1\0\x00\x08"
    + (b"{'descr':'<f4','fortran_order':False,'shape':(%b)}" % ((b"9" * 19 + b",") * 64)).ljust(2_048),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_cost_nothing_more_than_their_size(name):
    body = BODIES[name]()
    for sizes in ((), [65_536] * 99, [1_000] * 3_000):
        started = time.process_time()
        cut(body, sizes)
        assert time.process_time() - started < MAX_SECONDS


@pytest.mark.case(40)
@pytest.mark.parametrize("name", BODIES)
def test_memory_is_a_bounded_multiple_of_the_body(name):
    body = BODIES[name]()[: 128 << 10]  # tracing is slow
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        cut(body, [65_536] * 99)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < min(MAX_MEMORY_BYTES, 250 * len(body) + MIB)


@pytest.mark.parametrize("name", BODIES)
def test_every_one_comes_back(name):
    body = BODIES[name]()[: 256 << 10]
    assert unpack(pack(body)[0]) == body


def test_steps_are_counted_over_all_files_of_a_body(monkeypatch):
    """The bound holds over one archive behind another, not for each."""
    one = torch_zip({"a": torch.ones(900)})
    monkeypatch.setattr("s4weights.codec.segments.stream.MAX_PARSER_STEPS", 60)
    found = sum(map(is_found, cut(one * 20)))
    assert 0 < found < 20
    monkeypatch.setattr("s4weights.codec.segments.stream.MAX_PARSER_STEPS", 6_000)
    assert sum(map(is_found, cut(one * 20))) == 20


def test_nothing_in_a_pickle_is_called(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "called"), "w"))

    for save in (torch_zip, torch_legacy):
        body = save({"evil": Evil(), "a": torch.ones(900)})
        assert typed_bytes(cut(body)) == 3_600
    body = io.BytesIO()
    np.save(body, np.array([Evil()], dtype=object), allow_pickle=True)
    assert typed_bytes(cut(body.getvalue())) == 0
    assert not (tmp_path / "called").exists()


def test_a_deflate_bomb_is_never_inflated():
    """64 MiB of zeros in 64 KiB."""
    file = OneWay()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a/code/x.py", "w") as entry:
        for _ in range(64):
            entry.write(bytes(MIB))
    body = bytes(file.written)
    tracemalloc.start()
    try:
        assert sniff(body) is Kind.TORCH_ZIP
        assert typed_bytes(cut(body, [65_536] * 99)) == 0
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()
