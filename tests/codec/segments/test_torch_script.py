"""TorchScript: tensors before data.pkl, code compressed; and what else stands between the entries of a zip."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
import torch

from s4weights.codec.segments import open_segmenter
from s4weights.codec.sniff import sniff
from s4weights.codec.types import ElementType, Kind, Segment
from tests.codec.samples import pack, unpack
from tests.codec.segments.cutting import cut, is_found, named, typed_bytes
from tests.codec.segments.real_files import OneWay, torch_script, torch_zip


def types_within(segments: list[Segment], start: int, length: int) -> dict[str, int]:
    """Type -> bytes of a part of the body."""
    found: dict[str, int] = {}
    for one in segments:
        common = min(one.end, start + length) - max(one.start, start)
        if common > 0:
            found[one.element.name] = found.get(one.element.name, 0) + common
    return found


def places(body: bytes) -> dict[str, tuple[int, int]]:
    """Name behind the root -> start and length of an entry's stored bytes."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        for entry in archive.infolist():
            name_bytes, extra_bytes = struct.unpack_from("<HH", body, entry.header_offset + 26)
            start = entry.header_offset + 30 + name_bytes + extra_bytes
            found[entry.filename.partition("/")[2]] = (start, entry.compress_size)
    return found


def test_the_tensors_types_are_found_by_their_content():
    body = torch_script(400)
    assert sniff(body) is Kind.TORCH_ZIP
    segments, where = cut(body), places(body)
    by_size = {length: types_within(segments, start, length) for start, length in where.values()}
    weight, half = by_size[400 * 800 * 4], by_size[400 * 400 * 2]
    assert weight["F32"] > 0.99 * 400 * 800 * 4
    assert half["F16"] > 0.85 * 400 * 400 * 2
    tensors = sum(length for name, (_, length) in where.items() if name.startswith("data/"))
    assert typed_bytes(segments) < (1 + 1 / 16) * tensors + 8_192  # the last block reaches beyond its tensor


@pytest.mark.case(3)
def test_the_whole_of_it_comes_back_and_is_smaller():
    body = torch_script(400)
    container, _ = pack(body)
    assert unpack(container) == body
    assert len(container) < 0.95 * len(body)


def test_extra_files_may_stand_in_front():
    body = torch_script(_extra_files={"notes.txt": "x" * 5_000, "raw.bin": bytes(range(256)) * 20})
    assert sniff(body) is Kind.TORCH_ZIP
    assert typed_bytes(cut(body)) > 0.9 * 120 * 240 * 4


def rewritten(extra: list[tuple[str, int, bytes]], *, one_way: bool) -> bytes:
    """A torch.save file, written again by zipfile with other entries between data.pkl and the storages."""
    original = torch_zip({"a": torch.ones(50, 60), "b": torch.randn(900).bfloat16()})
    with zipfile.ZipFile(io.BytesIO(original)) as read:
        entries = [(one.filename, zipfile.ZIP_STORED, read.read(one)) for one in read.infolist()]
    file = OneWay() if one_way else io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name, method, data in [*entries[:1], *extra, *entries[1:]]:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            written.writestr(info, data)
    return bytes(file.written) if isinstance(file, OneWay) else file.getvalue()


NOISE = np.random.default_rng(1).bytes(20_000)
BETWEEN = {
    "compressed": [("archive/code/a.py", zipfile.ZIP_DEFLATED, b"def f(): pass\n" * 900)],
    "compressed noise": [("archive/code/a.py", zipfile.ZIP_DEFLATED, NOISE)],
    "another root": [("notes/readme", zipfile.ZIP_STORED, NOISE)],
    "no root": [("readme", zipfile.ZIP_STORED, NOISE), ("empty", zipfile.ZIP_STORED, b"")],
    "an archive": [("archive/extra/inner.pt", zipfile.ZIP_STORED, b"\0" + torch_zip({"x": torch.zeros(900)}))],
    "signatures": [("archive/extra/x", zipfile.ZIP_STORED, b"PK\x03\x04PK\x07\x08PK\x01\x02PK\x05\x06" * 900)],
    "bzip2": [("archive/extra/x", zipfile.ZIP_BZIP2, NOISE)],
}


@pytest.mark.case(3)
@pytest.mark.parametrize("one_way", [False, True], ids=["lengths in front", "descriptors"])
@pytest.mark.parametrize("between", BETWEEN)
def test_storages_behind_other_entries_keep_their_types(between, one_way):
    body = rewritten(BETWEEN[between], one_way=one_way)
    found = named(cut(body))
    assert found["a"] == ("F32", 12_000, (50, 60))
    assert found["b"] == ("BF16", 1_800, (900,))
    container, _ = pack(body)
    assert unpack(container) == body


def test_an_archive_that_cannot_be_told_from_an_empty_entry_loses_no_byte():
    """Its first header stands where that of the next entry would, and all names have the same root."""
    body = rewritten([("archive/extra/x", zipfile.ZIP_STORED, torch_zip({"x": torch.zeros(900)}))], one_way=True)
    assert unpack(pack(body)[0]) == body


def zip64(name: bytes, data: bytes) -> bytes:
    """A stored entry whose lengths stand in a zip64 extra field, as numpy writes them."""
    extra = struct.pack("<HHQQ", 1, 16, len(data), len(data))
    head = struct.pack(
        "<4sHHHHHIIIHH", b"PK\x03\x04", 45, 0, 0, 0, 0, zlib.crc32(data), 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra)
    )
    return head + name + extra + data


@pytest.mark.case(7)
def test_lengths_in_zip64_fields():
    original = torch_zip({"a": torch.ones(50, 60), "b": torch.randn(900).bfloat16()})
    with zipfile.ZipFile(io.BytesIO(original)) as read:
        entries = [(one.filename.encode(), read.read(one)) for one in read.infolist()]
    body = b"".join(zip64(*entry) for entry in [*entries[:2], (b"archive/code/x", NOISE), *entries[2:]])
    assert named(cut(body)) == {"a": ("F32", 12_000, (50, 60)), "b": ("BF16", 1_800, (900,))}


class Feeding:
    """A file object that hands what torch writes to a segmenter, and keeps nothing."""

    def __init__(self) -> None:
        self.found: list[Segment] = []
        self.size = 0
        self._segmenter = open_segmenter(Kind.TORCH_ZIP)

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data).cast("B")
        self.size += len(view)
        self.found += [one for one in self._segmenter.feed(view) if is_found(one)]
        return len(view)

    def flush(self) -> None:
        pass


@pytest.mark.case(7)
@pytest.mark.slow
def test_storages_of_more_than_4_gib():
    """As torch writes them: zip64 descriptors, and headers that say where they are."""
    size = (1 << 32) + 8
    file = Feeding()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"large": torch.zeros(size, dtype=torch.uint8), "behind": torch.ones(30, 40)}, file)
    finally:
        torch.serialization.set_crc32_options(True)
    assert file.size > size
    assert [(one.name, one.element, one.length, one.shape) for one in file.found] == [
        ("large", ElementType.U8, size, (size,)),
        ("behind", ElementType.F32, 4_800, (30, 40)),
    ]
