"""save and load give what torch.save and torch.load give, from fewer bytes, whole or not at all."""

from __future__ import annotations

import errno
import io
import re
import resource
import subprocess
import sys

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

import s4weights
from s4weights.codec.errors import ConfigError, FormatError
from s4weights.files import pack_file, unpack_file
from tests.api.states import odd_state, same


def torch_saved(state) -> bytes:
    body = io.BytesIO()
    torch.save(state, body)
    return body.getvalue()


@pytest.mark.filterwarnings("ignore")  # of torch, on what it calls deprecated: quantized and CSR tensors
def test_every_kind_of_state_comes_back_as_from_torch(tmp_path):
    state = odd_state()
    s4weights.save(state, tmp_path / "state.pt")
    back = s4weights.load(tmp_path / "state.pt", weights_only=False)
    assert same(back, torch.load(io.BytesIO(torch_saved(state)), weights_only=False))
    assert same(back, state)
    shared = back["shared"]
    assert shared[0].data_ptr() == shared[1].data_ptr() == back["view"].data_ptr() - 40


def test_the_unpacked_bytes_are_those_of_torch_save(tmp_path):
    state = {"weight": torch.randn(700, 900), "step": 3}
    s4weights.save(state, tmp_path / "state.pt")
    unpack_file(tmp_path / "state.pt", tmp_path / "plain.pt")
    assert (tmp_path / "plain.pt").read_bytes() == torch_saved(state)
    assert same(torch.load(tmp_path / "plain.pt"), state)
    assert (tmp_path / "state.pt").stat().st_size < 0.9 * (tmp_path / "plain.pt").stat().st_size


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
TENSORS = some.builds(
    lambda dtype, shape, seed: torch.randn(shape, generator=torch.Generator().manual_seed(seed)).mul(9).to(dtype),
    some.sampled_from(DTYPES),
    some.lists(some.integers(0, 40), max_size=3),
    some.integers(0, 99),
)
STATES = some.recursive(
    TENSORS | some.integers() | some.text(max_size=5) | some.none() | some.floats(allow_nan=False),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(STATES)
def test_any_state_comes_back_from_a_file_object(state):
    stored = io.BytesIO(b"before")
    stored.seek(6)
    s4weights.save(state, stored, threads=2)
    stored.seek(6)
    assert same(s4weights.load(stored), state)


def test_plain_files_are_read_as_torch_reads_them(tmp_path):
    state = {"weight": torch.randn(50, 60)}
    torch.save(state, tmp_path / "zip.pt")
    torch.save(state, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    safetensors.torch.save_file(state, tmp_path / "state.safetensors")
    pack_file(tmp_path / "state.safetensors", tmp_path / "packed")
    pack_file(tmp_path / "legacy.pt", tmp_path / "packed-legacy")
    for name in ("zip.pt", "legacy.pt", "state.safetensors", "packed", "packed-legacy"):
        assert same(s4weights.load(tmp_path / name), state), name
    with (tmp_path / "zip.pt").open("rb") as file:
        assert same(s4weights.load(file), state)
    assert same(s4weights.load(tmp_path / "packed", map_location="cpu"), state)


def test_weights_only_is_the_default(tmp_path):
    s4weights.save({"range": io.StringIO}, tmp_path / "state.pt")
    with pytest.raises(Exception, match="weights_only"):
        s4weights.load(tmp_path / "state.pt")


def test_a_delta_is_loaded_with_its_base(tmp_path):
    first = {"weight": torch.randn(400, 1000)}
    second = {"weight": first["weight"] + 1e-6 * torch.randn(400, 1000)}
    torch.save(first, tmp_path / "first.pt")
    torch.save(second, tmp_path / "second.pt")
    pack_file(tmp_path / "second.pt", tmp_path / "second.s4w", bases=[tmp_path / "first.pt"])
    assert same(s4weights.load(tmp_path / "second.s4w"), second)
    base = (tmp_path / "first.pt").rename(tmp_path / "elsewhere.pt")
    with pytest.raises(FormatError, match=r"first\.pt.*in Python bases=.*s4weights\.load_checkpoint"):
        s4weights.load(tmp_path / "second.s4w")
    assert same(s4weights.load(tmp_path / "second.s4w", bases=[base]), second)


def test_what_fails_leaves_the_old_file_as_it_was(tmp_path):
    target = tmp_path / "state.pt"
    s4weights.save({"a": 1}, target)
    with pytest.raises(AttributeError):
        s4weights.save({"weight": torch.randn(1000, 1000), "bad": lambda: None}, target)
    assert s4weights.load(target) == {"a": 1}
    assert list(tmp_path.iterdir()) == [target]


class Full(io.BytesIO):
    """A disk with room for some bytes."""

    def __init__(self, error: BaseException, room: int) -> None:
        super().__init__()
        self.error, self.room = error, room

    def write(self, data) -> int:
        self.room -= memoryview(data).nbytes
        if self.room < 0:
            raise self.error
        return super().write(data)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("room", [0, 100_000, 3_000_000])
def test_what_a_write_raises_comes_out_as_it_is(error, room):
    with pytest.raises(type(error)) as found:
        s4weights.save({"weight": torch.randn(2000, 1000)}, Full(error, room))
    assert found.value is error


def test_a_full_disk_is_named_with_the_target(tmp_path):
    target = tmp_path / "state.pt"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        with pytest.raises(OSError, match=re.escape(str(target))) as found:
            s4weights.save({"weight": torch.randn(2000, 1000)}, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named_with_the_target(tmp_path):
    with pytest.raises(FileNotFoundError) as found:
        s4weights.save({}, tmp_path / "no" / "state.pt")
    assert found.value.filename == str(tmp_path / "no" / "state.pt")


def test_a_damaged_container_is_never_loaded(tmp_path):
    s4weights.save({"weight": torch.randn(2000, 1000)}, tmp_path / "state.pt")
    stored = bytearray((tmp_path / "state.pt").read_bytes())
    stored[len(stored) // 2] ^= 1
    (tmp_path / "state.pt").write_bytes(stored)
    with pytest.raises(FormatError):
        s4weights.load(tmp_path / "state.pt")


def test_a_container_that_is_cut_off_is_named(tmp_path):
    s4weights.save({"weight": torch.randn(200, 1000)}, tmp_path / "state.pt")
    (tmp_path / "state.pt").write_bytes((tmp_path / "state.pt").read_bytes()[:-10])
    with pytest.raises(FormatError, match=re.escape(f"{tmp_path / 'state.pt'}: trailer: expected")):
        s4weights.load(tmp_path / "state.pt")


@pytest.mark.parametrize("name", ["", "s3://bucket", "s3:///key", "s3://bucket/", "gs://bucket/key"])
def test_names_that_lead_nowhere_are_refused(name):
    with pytest.raises(ConfigError, match="expected"):
        s4weights.save({}, name)


def test_other_bad_input_is_named(tmp_path):
    with pytest.raises(ConfigError, match="fast, balanced, small, found 'best'"):
        s4weights.save({}, tmp_path / "state.pt", level="best")
    with pytest.raises(TypeError, match="found int"):
        s4weights.save({}, 5)
    with pytest.raises(FileNotFoundError):
        s4weights.load(tmp_path / "none.pt")


def test_the_package_is_imported_without_torch():
    code = "import sys, s4weights; s4weights.__version__; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
