"""Every type in the specification of safetensors, its shape as it lies, and the header read in any pieces."""

from __future__ import annotations

import json
import random
import time
import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save

from s4weights.codec.segments import open_segmenter
from s4weights.codec.segments.safetensors_header import HeaderScanner
from s4weights.codec.segments.stream import GiveUp
from s4weights.codec.types import Kind
from tests.codec.samples import pack, safetensors_raw, unpack
from tests.codec.segments.cutting import cut, is_found, named
from tests.codec.segments.real_files import distcp

TYPES = {
    torch.float64: ("F64", 1),
    torch.float32: ("F32", 1),
    torch.float16: ("F16", 1),
    torch.bfloat16: ("BF16", 1),
    torch.complex64: ("F32", 2),
    torch.float8_e4m3fn: ("F8_E4M3", 1),
    torch.float8_e5m2: ("F8_E5M2", 1),
    torch.float8_e8m0fnu: ("F8_E8M0", 1),
    torch.float8_e4m3fnuz: ("U8", 1),
    torch.float8_e5m2fnuz: ("U8", 1),
    torch.int64: ("I64", 1),
    torch.int32: ("I32", 1),
    torch.int16: ("I16", 1),
    torch.int8: ("I8", 1),
    torch.uint64: ("U64", 1),
    torch.uint32: ("U32", 1),
    torch.uint16: ("U16", 1),
    torch.uint8: ("U8", 1),
    torch.bool: ("BOOL", 1),
}


@pytest.mark.case(8)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_that_torch_saves(tmp_path, dtype):
    element, pair = TYPES[dtype]
    tensor = torch.arange(600).remainder(2).float().to(dtype).view(20, 30)
    body = save({"t": tensor, "last": torch.ones(9)})
    shape = (20, 30, 2) if pair == 2 else (20, 30)
    assert named(cut(body)) == {"t": (element, tensor.nbytes, shape), "last": ("F32", 36, (9,))}
    (tmp_path / "t.safetensors").write_bytes(body)
    with safe_open(tmp_path / "t.safetensors", "pt") as file:
        assert file.get_tensor("t").dtype == dtype


PACKED = {
    "F4": (4, [3, 20], (3, 10)),
    "F4 odd": (4, [3], None),
    "F6_E2M3": (6, [3, 20], (3, 15)),
    "F6_E3M2": (6, [3, 4], (3, 3)),
    "F6_E2M3 odd": (6, [4, 3], None),
}


@pytest.mark.case(8)
@pytest.mark.parametrize("name", PACKED)
def test_packed_types_are_bytes_of_their_rows(name):
    bits, shape, ours = PACKED[name]
    size = -(-bits * torch.Size(shape).numel() // 8)
    body = safetensors_raw(
        {"t": {"dtype": name.split()[0], "shape": shape, "data_offsets": [0, size]}}, bytes(range(size)) + b"rest"
    )
    assert named(cut(body)) == {"t": ("U8", size, ours)}
    assert unpack(pack(body)[0]) == body


@pytest.mark.case(8)
def test_float4_as_torch_saves_it():
    tensor = torch.arange(60, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).view(3, 20)
    assert named(cut(save({"t": tensor}))) == {"t": ("U8", 60, (3, 20))}


def test_a_distcp_of_archives_and_then_safetensors():
    found = named(cut(distcp(safetensors=True)))
    assert {name: found[name] for name in ("layer.0", "layer.1", "layer.2")} == {
        f"layer.{number}": ("BF16", 5_400, (30, 90)) for number in range(3)
    }
    assert found["moments"] == ("F32", 12_000, (3_000,))


def scanned(text: bytes, size: int) -> list[object]:
    scanner = HeaderScanner()
    try:
        for at in range(0, len(text), size):
            scanner.feed(text[at : at + size])
    except GiveUp:
        return []
    return list(scanner.tensors())


def expected(text: bytes) -> list[object]:
    """The same by the library's own way: the whole tree."""
    found = []
    for name, about in json.loads(text).items():
        if name != "__metadata__":
            first, last = about["data_offsets"]
            found.append((first, last - first, about["dtype"], name, tuple(about["shape"])))
    return sorted(found)


NAMES = st.text(max_size=12) | st.sampled_from(['a"b', "back\\slash", "\\", '"', "}{", "__metadata__", "é", "\n", "{"])


@given(
    names=st.lists(NAMES, max_size=12, unique=True),
    metadata=st.none() | st.recursive(st.text(max_size=5) | st.integers(), lambda one: st.lists(one) | st.dictionaries(st.text(max_size=3), one), max_leaves=8),
    seed=st.integers(0, 999),
    size=st.sampled_from([1, 2, 7, 100, 100_000]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_any_header_is_read_as_json_reads_it(names, metadata, seed, size):
    shuffle = random.Random(seed)
    header, at = {}, 0
    for name in names:
        members = [("dtype", "F32"), ("shape", [shuffle.randrange(9)]), ("data_offsets", [at, at + 8])]
        if shuffle.random() < 0.3:
            shuffle.shuffle(members)
        if shuffle.random() < 0.2:
            members.append(("extra", {"x": ['}"', 1.5, None]}))
        header[name] = dict(members)
        at += 8
    if metadata is not None:
        header["__metadata__"] = metadata
    indent, ascii_only = shuffle.choice([None, 1]), shuffle.random() < 0.5
    text = json.dumps(header, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    found = [(start, length, element.name, name, shape) for start, length, element, name, shape in scanned(text, size)]
    assert found == expected(text)


@pytest.mark.parametrize("size", [1, 1_000, 1 << 20])
def test_metadata_longer_than_any_member_is_stepped_over(size):
    text = b'{"__metadata__":{"x":"%s"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' % (b'\\"}' * 60_000)
    assert [row[3] for row in scanned(text, size)] == ["a"]


def test_what_stands_behind_the_object_does_not_count():
    text = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   ,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
    assert [row[3] for row in scanned(text, 10)] == ["a"]


def test_a_header_of_no_members_has_no_tensors():
    for text in (b"{}", b"{ }", b"{,}", b"{1:2}", b'{"a"}', b'{"a":1,}'):
        body = safetensors_raw(text, bytes(900))
        assert named(cut(body)) == {}
        assert unpack(pack(body)[0]) == body


def test_a_million_tensors_take_little_memory_and_short_steps():
    """1.29 million tensors were 626 MB and one call of 8 seconds; here a tenth of them, in pieces of 64 KiB."""
    segmenter = open_segmenter(Kind.SAFETENSORS)
    members = b",".join(
        b'"layers.%d.experts.%d.weight":{"dtype":"BF16","shape":[16,16],"data_offsets":[%d,%d]}'
        % (number // 100, number % 100, 512 * number, 512 * number + 512)
        for number in range(129_000)
    )
    body = memoryview(safetensors_raw(b"{" + members + b"}", b""))
    longest, found = 0.0, []
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for at in range(0, len(body), 65_536):
            started = time.process_time()
            found += segmenter.feed(body[at : at + 65_536])
            longest = max(longest, time.process_time() - started)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * len(body)
    assert longest < 1
    found += segmenter.feed(memoryview(bytes(4_096)))
    assert [one.name for one in found if is_found(one)][:9] == [
        f"layers.0.experts.{number}.weight" for number in range(9)
    ]


def test_duplicates_are_two_tensors_where_their_places_differ():
    member = b'"a":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
    body = safetensors_raw(b"{" + member % (0, 4) + b"," + member % (4, 8) + b"}", bytes(8))
    assert sum(one.length for one in cut(body) if one.name == "a") == 8
