"""GGUF as the gguf package writes it, and tables that lie."""

from __future__ import annotations

import struct

import gguf
import pytest

from s4weights.codec.segments.gguf import BLOCKS
from s4weights.codec.sniff import sniff
from s4weights.codec.types import Kind
from tests.codec.samples import pack, unpack
from tests.codec.segments.cutting import cut, named, typed_bytes
from tests.codec.segments.real_files import gguf_file

PLAIN = {"F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"}


@pytest.mark.parametrize("alignment", [None, 64, 4096])
def test_every_tensor_is_found(alignment):
    body = gguf_file(alignment=alignment)
    assert sniff(body) is Kind.GGUF
    assert named(cut(body)) == {
        "f32": ("F32", 7_680, (30, 64)),
        "f16": ("F16", 3_840, (30, 64)),
        "bf16": ("BF16", 3_840, (30, 64)),
        "q8_0": ("BYTES", 2_040, None),
        "f64": ("F64", 15_360, (30, 64)),
        "i32": ("I32", 3_600, (900,)),
    }
    assert unpack(pack(body)[0]) == body


def test_the_places_are_those_that_the_package_reads(tmp_path):
    (tmp_path / "model.gguf").write_bytes(gguf_file())
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    places = {tensor.name: (int(tensor.data_offset), int(tensor.n_bytes)) for tensor in reader.tensors}
    found = {one.name: (one.start, one.length) for one in cut(gguf_file()) if one.name}
    assert found == places


def test_big_endian_elements_are_not_rotated():
    body = gguf_file(big_endian=True)
    assert sniff(body) is Kind.GGUF
    found = {name: (element, length) for name, (element, length, _) in named(cut(body)).items()}
    assert found == {"f32": ("U32", 7_680), "f16": ("U16", 3_840), "f64": ("U64", 15_360), "i32": ("U32", 3_600)}


def test_the_sizes_of_blocks_are_those_of_the_package():
    known = {int(kind): size for kind, size in gguf.GGML_QUANT_SIZES.items() if kind.name not in PLAIN}
    assert {kind: size for kind, size in known.items() if kind in BLOCKS} == {
        kind: size for kind, size in BLOCKS.items() if kind in known
    }
    assert len(BLOCKS.keys() & known.keys()) >= 20


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def table(*tensors: bytes, pairs: bytes = b"", count: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, len(tensors), count) + pairs + b"".join(tensors)


def tensor(name: bytes, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def test_holes_overlaps_unknown_types_and_any_order():
    body = table(
        tensor(b"late", (100,), 0, 8_192),
        tensor(b"early", (10, 100), 1, 0),
        tensor(b"over", (100,), 0, 1_800),
        tensor(b"unknown", (100,), 77, 4_096),
        tensor(b"nothing", (0, 7), 0, 4_096),
    ) + bytes(20_000)
    found = named(cut(body))
    assert found == {
        "early": ("F16", 2_000, (100, 10)),
        "over": ("F32", 200, None),
        "late": ("F32", 400, (100,)),
    }
    assert unpack(pack(body)[0]) == body


def test_every_kind_of_value_is_stepped_over():
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    pairs = [text(b"k") + struct.pack("<I", kind) + bytes(size) for kind, size in sizes.items()]
    pairs += [text(b"k") + struct.pack("<IIQ", 9, kind, 5) + bytes(5 * size) for kind, size in sizes.items()]
    pairs.append(text(b"k") + struct.pack("<I", 8) + text(b"value"))
    pairs.append(text(b"k") + struct.pack("<IIQ", 9, 8, 3) + text(b"a") + text(b"") + text(b"c" * 100_000))
    pairs.append(text(b"k") + struct.pack("<IIQIQIIQ", 9, 9, 2, 4, 1, 7, 0, 3) + b"abc")
    body = table(tensor(b"t", (900,)), pairs=b"".join(pairs), count=len(pairs)) + bytes(5_000)
    assert named(cut(body)) == {"t": ("F32", 3_600, (900,))}


HOSTILE = {
    "2^32 pairs": b"GGUF" + struct.pack("<IQQ", 3, 1, 1 << 32),
    "2^64 tensors": b"GGUF" + struct.pack("<IQQ", 3, (1 << 64) - 1, 0),
    "a text of 2^63": table(pairs=struct.pack("<Q", 1 << 63), count=1),
    "an array of 2^63": table(pairs=text(b"k") + struct.pack("<IIQ", 9, 0, 1 << 63), count=1),
    "an array of many empty texts": table(pairs=text(b"k") + struct.pack("<IIQ", 9, 8, 1 << 27), count=1),
    "arrays in arrays": table(pairs=text(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 90, count=1),
    "an unknown kind": table(pairs=text(b"k") + struct.pack("<I", 13), count=1),
    "no alignment": table(tensor(b"t", (9,)), pairs=text(b"general.alignment") + struct.pack("<II", 4, 0), count=1),
    "alignment 2^32": table(pairs=text(b"general.alignment") + struct.pack("<II", 4, 0xFFFFFFFF), count=1),
    "999 dimensions": table(text(b"t") + struct.pack("<I", 999)),
    "a size of 2^63": table(tensor(b"t", (1 << 63,))),
    "an offset of 2^63": table(tensor(b"t", (9,), 0, 1 << 63)),
    "a name of a megabyte": table(tensor(b"t" * (1 << 20), (9,))),
}


@pytest.mark.case(40)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tables_end_the_typed_part(name):
    body = HOSTILE[name] + bytes(200_000)
    assert typed_bytes(cut(body)) == 0
    assert unpack(pack(body)[0]) == body


def test_sizes_that_multiply_to_more_than_any_file_are_untyped():
    body = table(tensor(b"t", (1 << 48,) * 8)) + bytes(9_000)
    assert typed_bytes(cut(body)) == 0
    assert unpack(pack(body)[0]) == body
