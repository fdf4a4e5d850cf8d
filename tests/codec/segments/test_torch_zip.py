"""torch.save files as torch writes them: every storage typed, everything else bytes, all identical."""

from __future__ import annotations

import io
import zipfile

import pytest
import torch

from tests.codec.samples import pack, torch_file, trained_state, typed, unpack


def test_every_storage_of_a_training_state_is_typed_once():
    body = torch_file(trained_state())
    container, encoder = pack(body)
    assert unpack(container) == body
    found = typed(encoder)
    assert found["model.0.weight"] == ("BF16", 300_000)
    assert found["optimizer.state.0.exp_avg"] == ("BF16", 300_000)
    assert found["tied.0"] == ("F32", 80_000)
    assert found["view_only"] == ("F32", 36_000)
    assert found["complex"] == ("F32", 24_000)
    assert found["bools"] == ("BOOL", 5_000)
    assert found["ints.torch.int64"] == ("I64", 40_000)
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        storages = sum(one.file_size for one in archive.infolist() if "/data/" in one.filename)
    assert sum(size for _, size in found.values()) == storages
    names = [name for _, _, _, name, _ in encoder.segments if name]
    assert len(names) == len(set(names))


def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"a": torch.randn(5_000), "b": torch.randn(4_000).bfloat16()}


def save_with(setting: str, value: object, state: object) -> bytes:
    config = torch.utils.serialization.config.save
    with config.patch({setting: value}) if hasattr(config, "patch") else _patched(config, setting, value):
        return torch_file(state)


class _patched:
    def __init__(self, config, setting, value):
        self._saved = (config, setting, getattr(config, setting))
        setattr(config, setting, value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        config, setting, value = self._saved
        setattr(config, setting, value)


@pytest.mark.case(6)
@pytest.mark.parametrize("alignment", [64, 4096, 16384])
def test_any_storage_alignment(alignment):
    body = save_with("storage_alignment", alignment, weights())
    container, encoder = pack(body)
    assert typed(encoder) == {"a": ("F32", 20_000), "b": ("BF16", 8_000)}
    assert unpack(container) == body


@pytest.mark.case(2)
def test_files_without_crcs():
    torch.serialization.set_crc32_options(False)
    try:
        body = torch_file(weights())
    finally:
        torch.serialization.set_crc32_options(True)
    container, encoder = pack(body)
    assert len(typed(encoder)) == 2
    assert unpack(container) == body


@pytest.mark.case(6)
@pytest.mark.parametrize("name", ["epoch=3-step=400.ckpt", "ü.pt", "model"])
def test_the_root_is_named_after_the_file(tmp_path, name):
    torch.save(weights(), tmp_path / name)
    body = (tmp_path / name).read_bytes()
    container, encoder = pack(body)
    assert len(typed(encoder)) == 2
    assert unpack(container) == body


def test_a_module_is_read_as_opcodes_and_never_built():
    body = torch_file(torch.nn.Sequential(torch.nn.Linear(100, 100)))
    container, encoder = pack(body)
    assert sum(size for _, size in typed(encoder).values()) == 4 * 10_100
    assert unpack(container) == body


@pytest.mark.case(11)
def test_big_endian_storages_have_planes_that_are_not_rotated():
    floats = torch.randn(30_000)
    swapped = torch.from_numpy(floats.numpy().byteswap())
    body = torch_file({"a": swapped, "f8": torch.randn(9_000).to(torch.float8_e5m2)}).replace(b"little", b"big   ")
    container, encoder = pack(body)
    assert typed(encoder) == {"a": ("U32", 120_000), "f8": ("F8_E5M2", 9_000)}
    assert unpack(container) == body
    assert len(container) < 0.92 * len(body)


def test_two_files_in_a_row():
    body = torch_file(weights()) + torch_file(weights())
    container, encoder = pack(body)
    assert len(typed(encoder)) == 2
    assert unpack(container) == body


@pytest.mark.parametrize("shorten", [0, 4, 4_000])
def test_a_length_in_a_local_header_is_right_and_the_pickle_wrong(shorten):
    """A zip that Python wrote: lengths are in the headers; after one that contradicts data.pkl the next is still found."""
    with zipfile.ZipFile(io.BytesIO(torch_file(weights()))) as archive:
        entries = [(one.filename, archive.read(one)) for one in archive.infolist()]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as rewritten:
        for name, data in entries:
            rewritten.writestr(name, data[shorten:] if name.endswith("data/0") else data)
    container, encoder = pack(buffer.getvalue())
    assert typed(encoder) == {"a": ("F32", 20_000 - shorten), "b": ("BF16", 8_000)}
    shapes = {name: shape for _, _, _, name, shape in encoder.segments}
    assert shapes["a"] == (None if shorten else [5_000])
    assert unpack(container) == buffer.getvalue()


def test_many_small_storages():
    body = torch_file({f"p{number}": torch.randn(3) for number in range(1_000)})
    container, encoder = pack(body)
    assert unpack(container) == body
    assert encoder.totals.frames == 1
    assert len(container) < 0.5 * len(body)


def rewritten(pickle: bytes) -> bytes:
    """The archive of weights() with another data.pkl."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(torch_file(weights()))) as archive, zipfile.ZipFile(buffer, "w") as copy:
        for entry in archive.infolist():
            copy.writestr(
                entry.filename, pickle if entry.filename.endswith("data.pkl") else archive.read(entry.filename)
            )
    return buffer.getvalue()


HOSTILE = {
    "dup bomb": b"N" + b"2" * 1_100_000 + b".",
    "mark bomb": b"(" * 100_000 + b".",
    "memo bomb": b"]q\x00" + b"h\x00a" * 1_000,
    "memo of nothing": b"h\x05.",
    "huge length": b"\x8d" + b"\xff" * 8,
    "truncated": b"\x80\x02}q\x00X\x10\0\0\0abc",
    "unknown opcode": b"\xff.",
    "names no storage": b"N.",
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_behind_a_hostile_pickle_types_are_guessed(name):
    body = rewritten(HOSTILE[name])
    container, encoder = pack(body)
    assert typed(encoder) == {"data/0": ("F32", 20_000 - 1_024), "data/1": ("BF16", 8_000 - 1_024)}
    assert unpack(container) == body


@pytest.mark.parametrize(
    ("dtype", "element"),
    [
        (torch.bfloat16, "BF16"),
        (torch.float16, "F16"),
        (torch.float32, "F32"),
        (torch.float64, "F64"),
        (torch.complex64, "F32"),
        (torch.complex128, "F64"),
        (torch.int8, "I8"),
        (torch.uint8, "U8"),
        (torch.int16, "I16"),
        (torch.int32, "I32"),
        (torch.int64, "I64"),
        (torch.bool, "BOOL"),
    ],
    ids=str,
)
@pytest.mark.parametrize("count", [0, 1, 5_000])
def test_every_type_of_storage(dtype, element, count):
    tensor = (torch.arange(count) % 3).to(dtype)
    body = torch_file({"t": tensor, "behind": torch.ones(2_000)})
    container, encoder = pack(body)
    expected = {"t": (element, tensor.nbytes)} if count else {}
    assert typed(encoder) == {**expected, "behind": ("F32", 8_000)}
    assert unpack(container) == body


@pytest.mark.parametrize("cut", [10, 64, 100, 3_000, 20_000])
def test_files_that_end_early(cut):
    body = torch_file(weights())[:cut]
    assert unpack(pack(body)[0]) == body
