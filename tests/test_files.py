"""Files packed and unpacked: identical, whole or not there, and never the source itself."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard

from s4weights.anatomy import inspect_file
from s4weights.cli import main
from s4weights.codec._native import crc32c
from s4weights.codec.decode import read_tail
from s4weights.codec.engines import NativeEngine
from s4weights.codec.errors import FormatError
from s4weights.files import pack_file, unpack_file, whole_file
from tests.codec.samples import safetensors_file, torch_file, trained_state

BODIES = {
    "safetensors": safetensors_file(),
    "torch-zip": torch_file(trained_state()),
    "unknown": os.urandom(100_000),
    "empty": b"",
}


@pytest.fixture(params=BODIES)
def source(tmp_path, request):
    path = tmp_path / "body"
    path.write_bytes(BODIES[request.param])
    return path


@pytest.mark.parametrize("threads", [1, 5])
def test_a_file_comes_back_identical_and_the_container_knows_its_etag(source, tmp_path, threads):
    body = source.read_bytes()
    packed = pack_file(source, tmp_path / "packed", threads=threads)
    container = (tmp_path / "packed").read_bytes()
    assert (packed.logical_bytes, packed.stored_bytes, packed.fallbacks) == (len(body), len(container), 0)
    trailer = read_tail(container, object_bytes=len(container)).trailer
    assert str(trailer.etag) == hashlib.md5(body).hexdigest()
    unpacked = unpack_file(tmp_path / "packed", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == body
    assert (unpacked.logical_bytes, unpacked.frames) == (len(body), packed.frames)


def test_threads_do_not_change_a_byte(source, tmp_path):
    for threads in (1, 3):
        pack_file(source, tmp_path / str(threads), threads=threads)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "3").read_bytes()


def test_progress_adds_up_to_the_source(source, tmp_path):
    steps: list[int] = []
    pack_file(source, tmp_path / "packed", progress=steps.append)
    assert sum(steps) == source.stat().st_size
    if not steps:
        return
    steps.clear()
    unpack_file(tmp_path / "packed", tmp_path / "back", progress=steps.append)
    # Index and trailer come after the last frame.
    assert 0.9 * (tmp_path / "packed").stat().st_size < sum(steps) <= (tmp_path / "packed").stat().st_size


def other_name(source, kind):
    if kind == "itself":
        return source
    other = source.with_name("other")
    other.symlink_to(source) if kind == "symlink" else other.hardlink_to(source)
    return other


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", ["itself", "symlink", "hard link"])
@pytest.mark.parametrize("work", [pack_file, unpack_file])
def test_the_source_is_never_overwritten(tmp_path, work, kind, force):
    source = tmp_path / "body"
    source.write_bytes(BODIES["safetensors"])
    if work is unpack_file:
        pack_file(source, tmp_path / "packed")
        source = tmp_path / "packed"
    before = source.read_bytes()
    with pytest.raises(FileExistsError, match="is the source itself"):
        work(source, other_name(source, kind), force=force)
    assert source.read_bytes() == before


class _Broken(NativeEngine):
    def encode(self, data, element, **options):
        raise MemoryError


@pytest.mark.parametrize("existing", [None, b"precious"])
def test_work_that_fails_leaves_the_target_as_it_was(tmp_path, existing):
    (tmp_path / "body").write_bytes(BODIES["safetensors"])
    target = tmp_path / "packed"
    if existing is not None:
        target.write_bytes(existing)
    names = sorted(os.listdir(tmp_path))
    with pytest.raises(MemoryError):
        pack_file(tmp_path / "body", target, engine=_Broken(), force=True)
    assert sorted(os.listdir(tmp_path)) == names
    assert existing is None or target.read_bytes() == existing


@pytest.mark.parametrize("damage", ["cut", "longer", "frame", "index", "trailer"])
def test_damage_anywhere_leaves_the_target_as_it_was(tmp_path, damage):
    (tmp_path / "body").write_bytes(BODIES["torch-zip"])
    pack_file(tmp_path / "body", tmp_path / "packed")
    data = bytearray((tmp_path / "packed").read_bytes())
    trailer = read_tail(data, object_bytes=len(data)).trailer
    if damage == "cut":
        del data[-1:]
    elif damage == "longer":
        data += b"x"
    else:
        data[{"frame": 5000, "index": trailer.index_offset + 30, "trailer": len(data) - 60}[damage]] ^= 1
    (tmp_path / "packed").write_bytes(data)
    (tmp_path / "back").write_bytes(b"precious")
    with pytest.raises(FormatError):
        unpack_file(tmp_path / "packed", tmp_path / "back", force=True)
    assert (tmp_path / "back").read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["back", "body", "packed"]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "body").write_bytes(b"body")
    pack_file(tmp_path / "body", tmp_path / "packed")
    assert (tmp_path / "packed").stat().st_mode == (tmp_path / "body").stat().st_mode


def named(name: str) -> bytes:
    """A safetensors file of one tensor."""
    header = json.dumps({name: {"dtype": "BF16", "shape": [4096], "data_offsets": [0, 8192]}}).encode()
    return struct.pack("<Q", len(header)) + header + BODIES["safetensors"][-8192:]


@pytest.mark.parametrize("name", ["head[bold].w", "a[/x].w", "a:smile:b"])
def test_inspect_shows_names_as_they_are(tmp_path, capsys, name):
    path = tmp_path / "m[v2].safetensors"
    path.write_bytes(named(name))
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert name in shown
    assert f"{path}: safetensors" in shown


def test_inspect_sends_no_control_characters_of_a_file_to_the_terminal(tmp_path, capsys):
    (tmp_path / "body").write_bytes(named("a\x1b[2Jb"))
    assert main(["inspect", str(tmp_path / "body")]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["pack", "x", "--threads", "-1"], ["inspect", "x", "--limit", "many"]])
def test_a_number_that_cannot_be_is_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "expected a whole number from 0 on" in capsys.readouterr().err


def with_segments(container: bytes, segments: object) -> bytes:
    """The same container with another segment table and right checksums: a hostile writer's."""
    trailer = bytearray(container[-128:])
    offset = int.from_bytes(trailer[24:32], "little")
    frames = int.from_bytes(trailer[36:40], "little")
    old = zstandard.ZstdDecompressor().decompress(container[offset + 24 : -128], max_output_size=1 << 20)
    plain = old[: 8 * frames] + json.dumps({"segments": segments}).encode()
    packed = zstandard.ZstdCompressor().compress(plain)
    index = struct.pack("<4sIQII", b"S4IX", frames, len(plain), len(packed), crc32c(packed)) + packed
    trailer[16:24] = struct.pack("<Q", offset + len(index) + 128)
    trailer[32:36] = struct.pack("<I", len(index))
    trailer[120:124] = struct.pack("<I", crc32c(bytes(trailer[:120])))
    return container[:offset] + index + bytes(trailer)


@pytest.mark.parametrize(
    "segments",
    [7, {"a": 1}, [7], [[0, 5]], [["0", 5, "BF16", None, None]], [[0, -1, "BF16", None, None]], [[0, 9, "U8", 1, None]],
     [[0, 9, "U8", "a", None], [8, 9, "U8", "b", None]]],
)  # fmt: skip
def test_inspect_refuses_a_segment_table_that_is_none(tmp_path, segments):
    (tmp_path / "body").write_bytes(BODIES["safetensors"])
    pack_file(tmp_path / "body", tmp_path / "packed")
    hostile = with_segments((tmp_path / "packed").read_bytes(), segments)
    (tmp_path / "packed").write_bytes(hostile)
    with pytest.raises(FormatError, match="index: segment"):
        inspect_file(tmp_path / "packed")
    unpack_file(tmp_path / "packed", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == BODIES["safetensors"]


def test_what_a_link_points_to_is_replaced_with_the_mode_that_it_has(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o600)
    link.symlink_to(real)
    with whole_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert real.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_written_to_as_it_is(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(pipe.read_bytes)
        with whole_file(pipe) as file:
            file.write(b"through")
        assert reading.result(10) == b"through"
    assert pipe.is_fifo()


def test_the_longest_name_that_a_file_may_have(tmp_path):
    target = tmp_path / ("n" * 255)
    with whole_file(target) as file:
        file.write(b"x")
    assert target.read_bytes() == b"x"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
