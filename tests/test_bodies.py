"""Files packed on a base and unpacked again: found by content, never overwritten, named where they are missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from s4weights import frame_bases
from s4weights.anatomy import inspect_file
from s4weights.bodies import BaseFiles, ContainerBody, StoredFile
from s4weights.cli import main
from s4weights.codec.container import BaseBody, read_bases
from s4weights.codec.decode import read_tail
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import NativeEngine
from s4weights.codec.errors import ConfigError, FormatError, MissingBase, S4WeightsError
from s4weights.codec.prediction import narrow
from s4weights.codec.types import Base, BaseKind, BaseRange, ElementType, Frame, Reference
from s4weights.files import pack_file, unpack_file
from tests.codec.samples import normal, safetensors_raw

ENGINE = NativeEngine()
COUNT = 300_000


def checkpoint(step: int, *, count: int = COUNT) -> bytes:
    """Master weights in fp32, and a model rounded from them."""
    wide = np.frombuffer(normal(count, "f32"), "<u4")
    rng = np.random.default_rng(1)
    wide = (wide + step * rng.integers(0, 9_000, count).astype("<u4")).astype("<u4").tobytes()
    header, data = {}, b""
    for name, dtype, octets in (("master", "F32", wide), ("model", "BF16", narrow(wide))):
        header[name] = {"dtype": dtype, "shape": [count], "data_offsets": [len(data), len(data) + len(octets)]}
        data += octets
    return safetensors_raw(header, data)


@pytest.fixture
def chain(tmp_path):
    """Files of four steps; the containers of 1 to 3 each need the one before."""
    for step in range(4):
        (tmp_path / f"step-{step}").write_bytes(checkpoint(step))
    pack_file(tmp_path / "step-0", tmp_path / "step-0.s4w")
    for step in range(1, 4):
        before = tmp_path / f"step-{step - 1}.s4w"
        pack_file(tmp_path / f"step-{step}", tmp_path / f"step-{step}.s4w", bases=[before])
    return tmp_path


def stored_bases(path: Path) -> tuple[BaseBody, ...]:
    data = path.read_bytes()
    return read_bases(read_tail(data, object_bytes=len(data)).index.about)


def test_twins_are_stored_once_and_need_no_other_file(tmp_path):
    (tmp_path / "body").write_bytes(checkpoint(0))
    report = pack_file(tmp_path / "body", tmp_path / "packed")
    rows = {row.name: row for row in inspect_file(tmp_path / "packed").rows}
    assert (rows["model"].predictors, rows["model"].bases) == ({"narrowed"}, {0})
    assert rows["model"].stored_bytes < 200
    assert stored_bases(tmp_path / "packed") == report.bases == ()
    unpack_file(tmp_path / "packed", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == checkpoint(0)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["step-0", "step-0.s4w"])
def test_a_file_on_a_base_is_smaller_and_comes_back(chain, kind, threads):
    report = pack_file(chain / "step-1", chain / "delta", bases=[chain / kind], threads=threads)
    assert report.bases == (kind,)
    assert report.stored_bytes < 0.7 * (chain / "step-0.s4w").stat().st_size
    [base] = stored_bases(chain / "delta")
    assert (base.key, base.size, base.depth) == (kind, len(checkpoint(0)), 0)
    unpacked = unpack_file(chain / "delta", chain / "back")
    assert (chain / "back").read_bytes() == checkpoint(1)
    assert unpacked.bases == (kind,)


def test_threads_do_not_change_a_byte_of_what_is_predicted(chain):
    for threads in (1, 4):
        pack_file(chain / "step-2", chain / f"by-{threads}", bases=[chain / "step-1.s4w"], threads=threads)
    assert (chain / "by-1").read_bytes() == (chain / "by-4").read_bytes()


def test_a_chain_of_containers_comes_back_from_its_end(chain):
    assert [base.depth for base in stored_bases(chain / "step-3.s4w")] == [2]
    for step in range(3):
        (chain / f"step-{step}").unlink()
    unpack_file(chain / "step-3.s4w", chain / "back")
    assert (chain / "back").read_bytes() == checkpoint(3)


def test_a_base_that_says_nothing_is_not_needed(tmp_path):
    (tmp_path / "new").write_bytes(checkpoint(0))
    (tmp_path / "old").write_bytes(checkpoint(0, count=50_000)[:100] + bytes(1_000))
    report = pack_file(tmp_path / "new", tmp_path / "packed", bases=[tmp_path / "old"])
    (tmp_path / "old").unlink()
    assert report.bases == stored_bases(tmp_path / "packed") == ()
    unpack_file(tmp_path / "packed", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == checkpoint(0)


def test_any_range_of_a_body_in_a_chain_is_read(chain):
    files = BaseFiles((), ENGINE)
    body, whole = files.open(chain / "step-2.s4w"), checkpoint(2)
    for start, length in [(0, 10), (len(whole) - 5, 5), (1_100_000, 300_000), (COUNT * 4 - 9, 100), (0, len(whole))]:
        assert body.read(start, length) == whole[start : start + length]
    files.close()


def test_a_base_is_found_under_another_name_where_it_is_given(chain):
    (chain / "elsewhere").mkdir()
    pack_file(chain / "step-1", chain / "delta", bases=[chain / "step-0"])
    for name in ("step-0", "step-0.s4w"):
        (chain / name).rename(chain / "elsewhere" / name[::-1])
    with pytest.raises(MissingBase, match=r"'step-0'.*--base"):
        unpack_file(chain / "delta", chain / "back")
    assert not (chain / "back").exists()
    for name in ("0-pets", "w4s.0-pets"):
        unpack_file(chain / "delta", chain / name, bases=[chain / "delta", chain / "elsewhere" / name])
        assert (chain / name).read_bytes() == checkpoint(1)


def test_a_base_with_other_bytes_is_missing(chain):
    pack_file(chain / "step-1", chain / "delta", bases=[chain / "step-0"])
    (chain / "step-0.s4w").unlink()
    changed = bytearray(checkpoint(0))
    changed[-1] ^= 1
    (chain / "step-0").write_bytes(changed)
    with pytest.raises(MissingBase, match="expected its base"):
        unpack_file(chain / "delta", chain / "back")


def test_a_base_whose_container_is_damaged_is_named(chain):
    data = bytearray((chain / "step-0.s4w").read_bytes())
    data[200_000] ^= 1
    (chain / "step-0.s4w").write_bytes(data)
    (chain / "step-0").unlink()
    with pytest.raises(FormatError, match=r"step-0\.s4w: frame"):
        unpack_file(chain / "step-1.s4w", chain / "back")


@pytest.mark.parametrize("key", ["../secret", "/etc/hostname", ".", ""])
def test_a_key_leads_to_no_other_folder(tmp_path, key):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"x" * 50)
    looked_at = []
    files = BaseFiles((), ENGINE)
    files.open = lambda path: looked_at.append(path)  # type: ignore[method-assign]
    with pytest.raises(MissingBase):
        files.read([BaseBody(key, 50, bytes(16))], needed(1), folder / "delta")
    assert looked_at == []


def needed(number):
    return BaseRange(Reference(number, 0), BaseKind.SAME, 8)


def circle(folder: Path, name: str, other: str, digests: dict[str, bytes], depth: int) -> None:
    """A container that says that its only frame is a copy of the other's, whose digest it knows."""
    data = normal(5_000)
    encoder = Encoder(bases=[BaseBody(other, len(data), digests[other], depth)])
    encoder.plan(data)
    base = Base(Reference(1, 0), BaseKind.SAME, data)
    coded = encode_frame(Frame(0, ElementType.BF16, data, bases=(base,)), ENGINE)
    stored = encoder.start() + b"".join(encoder.add(coded)) + encoder.finish()
    digests[name] = encoder.digest
    (folder / name).write_bytes(stored)


@pytest.mark.parametrize("depths", [(0, 0), (5, 5), (63, 62), (6, 5)])
def test_containers_that_need_each_other_are_named(tmp_path, depths):
    encoder = Encoder()
    encoder.plan(normal(5_000))
    digests = {"b": encoder.digest}
    circle(tmp_path, "a", "b", digests, depths[0])
    circle(tmp_path, "b", "a", digests, depths[1])
    with pytest.raises(FormatError, match="bodies behind it"):
        unpack_file(tmp_path / "a", tmp_path / "back")


def test_a_base_at_the_end_of_a_full_chain_is_refused(chain, monkeypatch):
    monkeypatch.setattr(frame_bases, "MAX_CHAIN", 3)
    with pytest.raises(ConfigError, match=r"step-3\.s4w: expected a base with fewer than 3"):
        pack_file(chain / "step-0", chain / "new", bases=[chain / "step-3.s4w"])
    pack_file(chain / "step-0", chain / "new", bases=[chain / "step-2.s4w"])


@pytest.mark.parametrize("force", [False, True])
def test_a_base_is_never_overwritten(chain, force):
    before = (chain / "step-0.s4w").read_bytes()
    with pytest.raises(FileExistsError):
        pack_file(chain / "step-1", chain / "step-0.s4w", bases=[chain / "step-0.s4w"], force=force)
    with pytest.raises(FileExistsError):
        unpack_file(chain / "step-1.s4w", chain / "step-0.s4w", force=force)
    assert (chain / "step-0.s4w").read_bytes() == before


class _Changing(NativeEngine):
    """Something else writes to a file while its frames are encoded."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def encode(self, data, element, **options):
        with self._path.open("ab") as file:
            file.write(b"more")
        return super().encode(data, element, **options)


@pytest.mark.parametrize("name", ["step-1", "step-0"])
def test_a_file_that_changes_while_it_is_read_again_is_named(chain, name):
    with pytest.raises(S4WeightsError, match=f"{name}: changed while it was read"):
        pack_file(chain / "step-1", chain / "new", bases=[chain / "step-0"], engine=_Changing(chain / name), threads=1)
    assert not (chain / "new").exists()


def test_frames_of_a_container_that_refer_to_one_another_are_named_at_random_access_too(tmp_path):
    data = normal(5_000)
    encoder = Encoder()
    encoder.plan(data * 3)
    out = encoder.start()
    for number, start in enumerate([None, 0, len(data)]):
        bases = () if start is None else (Base(Reference(0, start), BaseKind.SAME, data),)
        coded = encode_frame(Frame(number * len(data), ElementType.BF16, data, bases=bases), ENGINE)
        out += b"".join(encoder.add(coded))
    (tmp_path / "body").write_bytes(out + encoder.finish())
    body = ContainerBody(tmp_path / "body", StoredFile(tmp_path / "body"), ENGINE, BaseFiles((), ENGINE))
    assert body.read(5, 2 * len(data) - 9) == (data * 2)[5:-4]
    for _ in range(2):
        with pytest.raises(FormatError, match="needs none of it, found frame 1"):
            body.read(2 * len(data), 4)
    body.close()


def test_the_commands_pack_on_a_base_show_it_and_unpack(chain, capsys):
    new, out = str(chain / "step-1"), str(chain / "new.s4w")
    assert main(["pack", new, "--base", str(chain / "step-0"), "-o", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bases"] == ["step-0"]
    assert main(["inspect", out]) == 0
    shown = capsys.readouterr().out
    assert "base (1): step-0, " in shown
    assert "narrowed(0)" in shown
    assert main(["inspect", out, "--json"]) == 0
    *rows, whole = map(json.loads, capsys.readouterr().out.splitlines())
    assert [base["key"] for base in whole["bases"]] == ["step-0"]
    by_name = {row["name"]: row for row in rows}
    assert (by_name["master"]["predictors"], by_name["master"]["bases"]) == (["difference"], [1])
    (chain / "step-0").rename(chain / "moved")
    (chain / "step-0.s4w").unlink()
    assert main(["unpack", out, "-o", str(chain / "back")]) != 0
    assert "--base" in capsys.readouterr().err
    assert main(["unpack", out, "-o", str(chain / "back"), "--base", str(chain / "moved")]) == 0
    assert (chain / "back").read_bytes() == checkpoint(1)
