"""Pickles as opcodes: hostile ones cost nothing, and nothing is ever called."""

from __future__ import annotations

import os
import pickle
import pickletools
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s4weights.codec.segments.pickle_ops import PickleFault, PickleReader
from s4weights.codec.segments.pickle_symbols import Call, Global, Items
from s4weights.codec.segments.storages import find_storages


def read(data: bytes, size: int = 0) -> PickleReader:
    reader = PickleReader()
    for start in range(0, len(data), size or len(data) or 1):
        reader.feed(memoryview(data)[start : start + (size or len(data))])
    return reader


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("size", [0, 1, 3])
def test_every_protocol_of_python_is_followed_to_its_end(protocol, size):
    value = {"a": [1, -5, 2**100, 1.5, None, True, False], "b": ("x", b"y", {"z"}, frozenset((3,))), 7: "ü" * 300}
    data = pickle.dumps(value, protocol)
    reader = read(data + b"beyond", size)
    assert reader.done
    assert reader.end == len(data)
    assert isinstance(reader.result, Items)
    assert [key for key, _ in reader.result.pairs][0] == "a"


def test_a_call_is_a_symbol():
    class Evil:
        def __reduce__(self):
            return (os.system, ("executed",))

    reader = read(pickle.dumps(Evil(), 2))
    assert isinstance(reader.result, Call)
    assert isinstance(reader.result.function, Global)
    assert reader.result.arguments == ("executed",)


def test_every_opcode_of_python_is_known():
    for opcode in pickletools.opcodes:
        reader = PickleReader()
        try:
            reader.feed(memoryview(opcode.code.encode("latin-1") + bytes(64)))
        except PickleFault as fault:
            assert "known opcode at byte 0" not in str(fault), opcode.name


BOMBS = {
    "marks": b"(" * 1_000_000,
    "dup of nothing": b"2" * 10,
    "dup": b"N" + b"2" * 1_100_000,
    "nested tuples": b")" + b"\x85" * 200_000 + b".",
    "doubling": b")" + b"2\x86" * 200_000 + b".",
    "huge string": b"\x8d" + struct.pack("<Q", 1 << 62),
    "huge long": b"\x8b" + struct.pack("<I", 0xFFFFFFFF),
    "negative frame": b"\x95" + b"\xff" * 8,
    "memo of nothing": b"h\x05",
    "memo far away": b"Nr\xff\xff\xff\xffj\xff\xff\xff\xff.",
    "endless line": b"c" + b"a" * 1_000_000,
    "appends to nothing": b"(e",
    "setitems on none": b"N(NNu.",
    "unknown": b"\xff",
    "digits": b"I" + b"9" * 60_000 + b"\n.",
    "inst": b"(ios\nsystem\n.",
    "persid": b"Pstorage\n.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_bounded(name):
    started = time.process_time()
    try:
        reader = read(BOMBS[name])
        list(find_storages(reader.result))
    except PickleFault as fault:
        assert "pickle" in str(fault)
    assert time.process_time() - started < 10


def test_a_pickle_cut_anywhere_is_unfinished_and_no_error():
    data = pickle.dumps({"a": [1, -5, 2**100, 1.5, None, True], "b": ("x", b"y", {"z"})}, 4)
    for size in range(len(data)):
        reader = read(data[:size])
        assert not reader.done
        assert reader.end <= size


@given(st.binary(max_size=300), st.integers(0, 400))
@settings(max_examples=150, deadline=None)
def test_any_damage_is_a_fault_or_a_value(noise, place):
    data = bytearray(pickle.dumps({f"k{number}": [number, (number, "x")] for number in range(40)}, 2))
    data[place : place + len(noise)] = noise
    try:
        list(find_storages(read(bytes(data)).result))
    except PickleFault as fault:
        assert str(fault).startswith("pickle: ")


def test_a_dag_is_walked_once():
    data = b"\x80\x02]" + b"".join(b"2\x86" for _ in range(60)) + b"."
    assert list(find_storages(read(data).result)) == []
