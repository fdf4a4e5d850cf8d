"""Pickles made to cost: memory and time stay bounded, and nothing but PickleFault is raised."""

from __future__ import annotations

import struct
import time

import pytest

from s4weights.codec import limits
from s4weights.codec.segments.pickle_ops import PickleFault, PickleReader
from s4weights.codec.segments.storages import find_storages

STORAGE = b"(X\x07\0\0\0storagectorch\n%b\nX\x01\0\0\0%bX\x03\0\0\0cpu%btQ"


def read(data: bytes) -> PickleReader:
    reader = PickleReader()
    reader.feed(memoryview(data))
    return reader


def storage(key: bytes = b"0", numel: bytes = b"K\x05", kind: bytes = b"FloatStorage") -> bytes:
    return STORAGE % (kind, key, numel)


def test_a_global_named_by_a_structure_that_doubles_is_not_spelled_out():
    """Sixty levels of pairs of one another: as text, 2^60 brackets."""
    started = time.process_time()
    reader = read(b"]" + b"2\x86" * 60 + b"2\x93.")
    assert reader.done
    assert time.process_time() - started < 1


def test_a_global_named_by_a_deep_structure_does_not_overflow():
    assert read(b")" + b"\x85" * 100_000 + b"2\x93.").done


@pytest.mark.parametrize(
    ("bomb", "bound"),
    [
        (b"N" * (limits.MAX_PICKLE_STACK + 2), "values on the stack"),
        (b"(" * (limits.MAX_PICKLE_DEPTH + 1), "open marks"),
        (b"\x8d" + struct.pack("<Q", limits.MAX_PICKLE_BYTES + 1), "a string of"),
    ],
    ids=["stack", "marks", "string"],
)
def test_bounds_are_named(bomb, bound):
    with pytest.raises(PickleFault, match=bound):
        read(bomb)


@pytest.mark.parametrize(
    ("limit", "bomb"),
    [
        ("MAX_PICKLE_OPS", b"N" + b"q\x00" * 100),
        ("MAX_PICKLE_MEMO", b"N" + b"\x94" * 100),
        ("MAX_PICKLE_BYTES", b"X" + struct.pack("<I", 100)),
    ],
)
def test_small_limits_hold_too(monkeypatch, limit, bomb):
    monkeypatch.setattr(f"s4weights.codec.segments.pickle_ops.{limit}", 50)
    with pytest.raises(PickleFault, match="at most 50"):
        read(bomb)


def test_a_long_key_used_often_is_not_copied_each_time():
    """A hundred thousand items under one key of 8 MB would be 800 GB of paths."""
    key = b"X" + struct.pack("<I", 8_000_000) + b"k" * 8_000_000 + b"q\x00"
    data = b"}X\x01\0\0\0a(" + key + b"]" + b"h\x00]" * 100_000 + b"ds."
    started = time.process_time()
    assert list(find_storages(read(data).result)) == []
    assert time.process_time() - started < 5


def test_names_are_cut_to_what_a_person_reads():
    body = b"}" + b"X" + struct.pack("<I", 1_000) + b"k" * 1_000 + storage() + b"s."
    (named,) = find_storages(read(body).result)
    assert named.name == "k" * 200


@pytest.mark.parametrize(
    "numel", [b"J\xff\xff\xff\xff", b"\x8a\x09" + b"\x7f" * 9, b"N", b"\x88", b"X\x01\0\0\x005"], ids=repr
)
def test_storages_of_no_possible_size_are_none(numel):
    assert list(find_storages(read(storage(numel=numel) + b".").result)) == []


def test_a_structure_that_holds_itself_is_walked_once():
    (named,) = find_storages(read(b"]q\x00(h\x00" + storage() + b"e.").result)
    assert named.key == "0"
    assert named.name == "1"
