"""Several torch.save archives in one body, and types that only the tensor names."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import given, settings
from hypothesis import strategies as st

from s4weights.codec.encode import Encoder
from tests.codec.samples import pack, torch_file, unpack

# An archive without a storage, so that its directory lies within reach of the noise; then one with a storage.
TWO_ARCHIVES = torch_file({"step": 7}) + torch_file({"a": torch.arange(3_000.0)})


def runs(encoder: Encoder) -> Counter[tuple[str, int]]:
    """How often each (type, bytes) occurs among the segments with a type."""
    return Counter((element, size) for _, size, element, _, _ in encoder.segments if element != "BYTES")


@pytest.fixture(scope="module")
def distcp(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What torch.distributed.checkpoint writes: one archive a tensor, one behind another."""
    folder = tmp_path_factory.mktemp("dcp")
    torch.manual_seed(0)
    state = {f"layer.{number}": torch.randn(9_000).bfloat16() for number in range(5)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(
            {**state, "moments": torch.randn(3_000), "step": 7},
            storage_writer=dcp.FileSystemWriter(folder, thread_count=1),
            no_dist=True,
        )
    return b"".join(path.read_bytes() for path in sorted(Path(folder).glob("*.distcp")))


@pytest.mark.case(1)
def test_every_tensor_of_a_distcp_is_typed(distcp):
    container, encoder = pack(distcp)
    assert runs(encoder) == {("BF16", 18_000): 5, ("F32", 12_000): 1}
    assert unpack(container) == distcp
    assert len(container) < 0.8 * len(distcp)


@pytest.mark.parametrize("size", [1, 13, 4_096])
def test_a_distcp_is_cut_the_same_in_any_pieces(distcp, size):
    assert pack(distcp, sizes=[size])[0] == pack(distcp)[0]


@given(noise=st.binary(min_size=1, max_size=60), place=st.integers(0, 1_800), size=st.integers(1, 700))
@settings(max_examples=60, deadline=None)
def test_a_damaged_archive_is_cut_the_same_in_any_pieces(noise, place, size):
    body = bytearray(TWO_ARCHIVES)
    body[place : place + len(noise)] = noise
    container = pack(bytes(body), sizes=[size])[0]
    assert container == pack(bytes(body))[0]
    assert unpack(container) == body


def test_byte_order_and_root_are_each_archives_own(tmp_path):
    big = torch_file({"a": torch.randn(3_000)}).replace(b"little", b"big   ")
    torch.save({"b": torch.randn(2_000)}, tmp_path / "other.pt")
    body = big + (tmp_path / "other.pt").read_bytes()
    container, encoder = pack(body)
    assert runs(encoder) == {("U32", 12_000): 1, ("F32", 8_000): 1}
    assert unpack(container) == body


@pytest.mark.parametrize("between", [b"\0", b"PK\x05\x06", b"PK\x06\x06" + b"\xff" * 8, bytes(100)])
def test_what_is_no_archive_behind_an_archive_stays_bytes(between):
    body = torch_file({"a": torch.randn(3_000)}) + between + torch_file({"b": torch.randn(2_000)})
    container, encoder = pack(body)
    assert runs(encoder) == {("F32", 12_000): 1}
    assert unpack(container) == body


def test_records_with_known_sizes_are_stepped_over_however_long():
    buffer = io.BytesIO()
    original = zipfile.ZipFile(io.BytesIO(torch_file({"a": torch.randn(3_000)})))
    with original as archive, zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as rewritten:
        for entry in archive.infolist():
            if entry.filename == "archive/data/0":
                rewritten.writestr("archive/extra/notes", bytes(50_000) + b"PK\x03\x04" + bytes(50_000))
            rewritten.writestr(entry.filename, archive.read(entry))
    container, encoder = pack(buffer.getvalue())
    assert runs(encoder) == {("F32", 12_000): 1}
    assert unpack(container) == buffer.getvalue()


@pytest.mark.case(8)
@pytest.mark.parametrize(
    ("dtype", "element", "width"),
    [
        (torch.float8_e4m3fn, "F8_E4M3", 1),
        (torch.float8_e5m2, "F8_E5M2", 1),
        (torch.float8_e8m0fnu, "F8_E8M0", 1),
        (torch.float8_e4m3fnuz, "U8", 1),
        (torch.uint16, "U16", 2),
        (torch.uint32, "U32", 4),
        (torch.uint64, "U64", 8),
    ],
    ids=str,
)
def test_untyped_storages_take_the_type_of_their_tensor(dtype, element, width):
    body = torch_file({"before": torch.randn(2_000), "w": torch.arange(6_000).to(dtype).view(60, 100)})
    container, encoder = pack(body)
    assert [row[1:] for row in encoder.segments if row[3] == "w"] == [[6_000 * width, element, "w", [60, 100]]]
    assert unpack(container) == body


@pytest.mark.parametrize(("dtype", "element"), [(torch.qint8, "I8"), (torch.quint8, "U8"), (torch.qint32, "I32")])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_storages_behind_quantised_ones_are_still_found(dtype, element):
    quantised = torch.quantize_per_tensor(torch.randn(5_000), 0.01, 0, dtype)
    body = torch_file({"q": quantised, "behind": torch.randn(2_000)})
    container, encoder = pack(body)
    assert runs(encoder) == {(element, 5_000 * quantised.element_size()): 1, ("F32", 8_000): 1}
    assert unpack(container) == body
