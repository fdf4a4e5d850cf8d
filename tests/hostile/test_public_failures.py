"""What went wrong elsewhere, in public: shapes of files, wrong bytes that looked right, and attacks (see the project's cases)."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from s4weights.codec.engines import NativeEngine, ReferenceEngine
from s4weights.codec.errors import FormatError
from s4weights.codec.sniff import sniff
from s4weights.codec.types import ElementType, Kind
from tests.codec.samples import pack, safetensors_raw, typed, unpack
from tests.codec.segments.cutting import cut, named, typed_bytes
from tests.codec.segments.real_files import npz, torch_legacy, torch_zip

ENGINES = [NativeEngine(), ReferenceEngine()]
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda one: one.name)


@pytest.mark.case(2)
def test_storages_that_were_left_out_keep_their_place(tmp_path):
    """torch.serialization.skip_data writes no data, and CRCs of none [pytorch#137735]; the bytes are filled in later."""
    path = tmp_path / "skipped.pt"
    with torch.serialization.skip_data():
        torch.save({"a": torch.ones(50, 60), "b": torch.ones(900, dtype=torch.bfloat16)}, path)
    body = bytearray(path.read_bytes())
    assert named(cut(bytes(body))) == {"a": ("F32", 12_000, (50, 60)), "b": ("BF16", 1_800, (900,))}
    for at in range(0, len(body) - 9, 997):
        body[at] ^= 1  # whatever a checksum of the zip says
    assert unpack(pack(bytes(body))[0]) == bytes(body)


@pytest.mark.case(5)
def test_tar_files_from_before_torch_0_1_8_are_bytes():
    """[pytorch#1263]: a tar of pickles and storages."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in (
            ("sys_info", b"\x80\x02}q\0."),
            ("pickle", b"\x80\x02N."),
            ("storages", bytes(900)),
            ("tensors", b"x" * 99),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    body = buffer.getvalue()
    assert sniff(body, complete=True) is Kind.UNKNOWN
    assert typed_bytes(cut(body)) == 0
    assert unpack(pack(body)[0]) == body


@pytest.mark.case(9)
@pytest.mark.parametrize("shape", [[0], [], [3, 0]])
@pytest.mark.parametrize("save", [torch_zip, torch_legacy])
def test_empty_and_scalar_tensors_make_no_empty_frame(shape, save):
    """[vllm#1687], where a scalar and an empty tensor have equal offsets."""
    tensor = torch.ones(shape)
    for state in (
        {"only": tensor},
        {"first": tensor, "w": torch.randn(4_000)},
        {"w": torch.randn(4_000), "last": tensor},
    ):
        container, encoder = pack(save(state))
        assert unpack(container) == save(state)
        assert all(size > 0 for _, size, *_ in encoder.segments)
    offsets = [0, 4 * tensor.numel()]
    body = safetensors_raw({"e": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}, bytes(offsets[1]))
    container, encoder = pack(body)
    assert unpack(container) == body
    assert typed(encoder) == ({"e": ("F32", 4)} if offsets[1] else {})


@pytest.mark.case(11)
def test_one_storage_seen_as_several_tensors_is_one_segment():
    """Tied, viewed, transposed and complex views of one storage [safetensors#98, pytorch#58970]."""
    storage = torch.randn(60, 80)
    pairs = torch.randn(50, 60, dtype=torch.complex64)
    state = {
        "w": storage,
        "tied": storage,
        "t": storage.t(),
        "row": storage[7],
        "pairs": pairs,
        "real": torch.view_as_real(pairs).clone(),
    }
    for save in (torch_zip, torch_legacy):
        body = save(state)
        assert named(cut(body)) == {
            "w": ("F32", 19_200, (60, 80)),
            "pairs": ("F32", 24_000, (50, 60, 2)),
            "real": ("F32", 24_000, (50, 60, 2)),
        }
        assert unpack(pack(body)[0]) == body


MIXED = {
    "u32, u16": (torch.uint32, torch.uint16, ("U32", 19_200, (60, 80))),
    "float8, u16": (torch.float8_e4m3fn, torch.uint16, ("F8_E4M3", 19_200, (60, 320))),
}


@pytest.mark.case(11)
@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("save", [torch_zip, torch_legacy])
def test_views_of_several_types_are_one_segment_of_the_first(name, save):
    """Types that torch keeps in the tensor may share a storage; of those in the storage torch.save itself refuses it."""
    first, second, expected = MIXED[name]
    storage = torch.randn(60, 80)
    body = save({"w": storage.view(first), "bits": storage.view(second)})
    assert named(cut(body)) == {"w": expected}
    assert unpack(pack(body)[0]) == body


@pytest.mark.case(10, 11)
def test_safetensors_of_several_types_in_one_place():
    data = torch.randn(60, 80).numpy().tobytes()
    header = {
        "w": {"dtype": "F32", "shape": [60, 80], "data_offsets": [0, 19_200]},
        "bits": {"dtype": "I32", "shape": [60, 80], "data_offsets": [0, 19_200]},
        "half": {"dtype": "BF16", "shape": [60, 80], "data_offsets": [9_600, 19_200]},
    }
    body = safetensors_raw(header, data)
    container, encoder = pack(body)
    assert typed(encoder) == {"w": ("F32", 19_200)}
    assert unpack(container) == body


OBJECT_ARRAYS = [
    "py2-objarr.npy",
    "py2-objarr.npz",
    "py3-objarr.npy",
    "py3-objarr.npz",
    "win64python2.npy",
    "python3.npy",
]


@pytest.mark.case(12)
@pytest.mark.parametrize("name", OBJECT_ARRAYS)
def test_numpys_own_odd_arrays(name):
    """Arrays of objects are bytes and never unpickled."""
    body = (Path(np.__file__).parent / "lib" / "tests" / "data" / name).read_bytes()
    assert typed_bytes(cut(body)) == 0 or "objarr" not in name
    assert unpack(pack(body)[0]) == body


@pytest.mark.case(35)
@each_engine
def test_a_wrong_byte_of_the_right_size_is_never_a_success(engine):
    """[huggingface_hub#3643, pytorch#28858]: torch.load would take every one of these."""
    body = torch_zip({"w": torch.randn(9_000).bfloat16()})
    container = pack(body)[0]
    for place in range(16, len(container) - 128, len(container) // 60):
        changed = bytearray(container)
        changed[place] ^= 0x10
        with pytest.raises(FormatError):
            unpack(bytes(changed), engine)


@pytest.mark.case(36, 37)
@each_engine
@pytest.mark.parametrize("size", [0, 1, 7, 63, 64, 65, (64 << 10) - 1, 64 << 10, (64 << 10) + 1])
def test_the_last_bytes_are_there(engine, size):
    """[nvcomp#40, #97, #99, bzip3#131]: sizes around a block, of text, of numbers and of noise, with and without a type."""
    random = np.random.default_rng(size)
    for data in (
        b"abcdefg" * (size // 7 + 1),
        random.normal(size=size // 4 + 1).astype("f4").tobytes(),
        random.bytes(size),
    ):
        data = data[:size]
        assert unpack(pack(data, engine)[0], engine) == data
        for dtype in ("F32", "BF16", "U8"):
            header = {"w": {"dtype": dtype, "shape": None, "data_offsets": [0, size]}}
            body = safetensors_raw(header, data)
            assert unpack(pack(body, engine)[0], engine) == body


@pytest.mark.case(38)
@each_engine
def test_bools_that_are_neither_0_nor_1(engine):
    """A storage of bools may hold 2 or 255: no packing to one bit."""
    flags = torch.tensor([0, 1, 2, 255] * 3_000, dtype=torch.uint8).view(torch.bool)
    for body in (torch_zip({"mask": flags}), torch_legacy({"mask": flags})):
        container, encoder = pack(body, engine)
        assert typed(encoder) == {"mask": (ElementType.BOOL.name, 12_000)}
        assert unpack(container, engine) == body
        assert bytes([0, 1, 2, 255]) * 3_000 in unpack(container, engine)


@pytest.mark.case(41)
@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../data/0", "C:\\x", "data/\0/0"])
def test_names_that_climb_are_text(name):
    """Names in archives never become paths: nothing but the container is written."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
        info = zipfile.ZipInfo("placeholder")
        info.filename = name
        archive.writestr(info, np.random.default_rng(0).normal(size=3_000).tobytes())
    body = buffer.getvalue()
    container, _ = pack(body)
    assert unpack(container) == body


def test_compressed_archives_stay_as_they_are():
    """What is deflated already is neither inflated nor made larger than its headers and index."""
    body = npz(compressed=True)
    assert typed_bytes(cut(body)) == 0
    assert len(pack(body)[0]) < len(body) + 1_000
