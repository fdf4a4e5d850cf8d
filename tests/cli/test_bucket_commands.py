"""verify, gc, explain and repack on a directory that a proxy wrote."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from s4weights.cli import main
from s4weights.codec.container import HEADER_BYTES
from s4weights.proxy.config import Settings
from s4weights.proxy.lineage.names import new_nonce, pin_key, pin_text, tomb_key
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.objects.occupants import content
from s4weights.proxy.upstream.directory import DirectoryUpstream
from tests.proxy.objects.conftest import body, read_all
from tests.proxy.objects.test_deltas import KEYS, Run

BUCKET = "training"


@pytest.fixture
def buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two steps of a run, the second coded against the first, and a body that is no checkpoint."""
    root = tmp_path / "buckets"
    root.mkdir()

    async def write() -> None:
        async with _objects(root, tmp_path) as objects:
            await objects.store.upstream.create_bucket(BUCKET)
            run = Run()
            for key in KEYS[:2]:
                data = run.step()
                await objects.put(BUCKET, key, body(data), len(data), {})
            await objects.put(BUCKET, "notes.txt", body(b"notes" * 100), 500, {})

    asyncio.run(write())
    monkeypatch.setenv("S4W_UPSTREAM", str(root))
    return root


class _objects:
    def __init__(self, root: Path, folder: Path, *, rebase: bool = True) -> None:
        self.upstream = DirectoryUpstream(root)
        self.settings = Settings(upstream=str(root), state_dir=folder / "state", rebase=rebase)

    async def __aenter__(self) -> Objects:
        await self.upstream.start()
        self.objects = Objects(self.upstream, self.settings, Metrics())
        await self.objects.start()
        return self.objects

    async def __aexit__(self, *_: object) -> None:
        await self.objects.close()
        await self.upstream.close()


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_verify_finds_nothing_wrong(buckets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", BUCKET, "--deep"]) == 0
    assert "2 containers" in capsys.readouterr().out


def test_verify_names_an_object_whose_base_is_gone_and_goes_on(
    buckets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (buckets / BUCKET / KEYS[0]).unlink()
    assert main(["verify", f"s3://{BUCKET}", "--json"]) == 1
    found = rows(capsys)
    assert [row["key"] for row in found[:-1]] == [KEYS[1]]
    assert KEYS[0] in found[0]["fault"]
    assert found[-1] == {"containers": 1, "damaged": 1, "bytes": found[-1]["bytes"]}


def test_deep_verify_finds_a_flipped_bit_that_a_look_does_not(
    buckets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = buckets / BUCKET / KEYS[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with path.open("r+b") as file:  # in place: the file keeps its metadata
        file.write(data)
    assert main(["verify", f"{BUCKET}/{KEYS[0]}", "--json"]) == 0
    rows(capsys)
    assert main(["verify", f"{BUCKET}/run/", "--deep", "--json"]) == 1
    assert [row["ok"] for row in rows(capsys)[:-1]] == [False, False]


@pytest.mark.parametrize("size", [HEADER_BYTES, 100, 20_000, 300_000])
@pytest.mark.parametrize("how", [[], ["--deep"]], ids=["look", "deep"])
def test_verify_names_a_container_that_was_cut_off(
    buckets: Path, how: list[str], size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    os.truncate(buckets / BUCKET / KEYS[1], size)
    assert main(["verify", BUCKET, "--json", *how]) == 1
    *found, told = rows(capsys)
    assert [row["key"] for row in found if not row["ok"]] == [KEYS[1]]
    assert (told["containers"], told["damaged"]) == (1, 1)
    assert main(["explain", f"{BUCKET}/{KEYS[1]}"]) == 1
    assert "container is damaged" in capsys.readouterr().err


def test_gc_keeps_what_a_container_with_a_longer_end_needs(buckets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = buckets / BUCKET / KEYS[1]
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\n")
    assert main(["gc", BUCKET, "--grace-days", "0", "--json"]) == 0
    assert rows(capsys)[-1]["done"] == 0
    os.truncate(path, size)
    assert main(["verify", BUCKET, "--deep"]) == 0


def test_explain_shows_the_chain(buckets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{BUCKET}/{KEYS[1]}", "--json"]) == 0
    [said] = rows(capsys)
    assert [base["key"] for base in said["bases"]] == [KEYS[0]]
    assert said["bases"][0]["found_at"] == f"{BUCKET}/{KEYS[0]}"
    assert 1 < said["restore_ratio"] <= 3
    assert main(["explain", f"{BUCKET}/{KEYS[0]}"]) == 0
    assert "1 object is pinned" in capsys.readouterr().out
    assert main(["explain", f"{BUCKET}/notes.txt"]) == 0
    assert "not a container" in capsys.readouterr().out


def test_explain_fails_where_a_base_is_gone(buckets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (buckets / BUCKET / KEYS[0]).unlink()
    assert main(["explain", f"{BUCKET}/{KEYS[1]}"]) == 1
    assert KEYS[0] in capsys.readouterr().out


def test_gc_takes_away_what_a_dead_process_left_and_nothing_else(
    buckets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = content(bytes(range(16)), 1 << 21)
    assert some is not None
    left = [(pin_key(some, "gone.pt", new_nonce()), pin_text("gone.pt")), (tomb_key(some, new_nonce()), b"")]

    async def leave() -> None:
        async with _objects(buckets, tmp_path) as objects:
            for key, text in left:
                await objects.store.upstream.put(BUCKET, key, text, len(text), {})

    asyncio.run(leave())
    assert main(["gc", BUCKET, "--json"]) == 0  # all of it is young
    assert rows(capsys)[-1]["done"] == 0
    assert main(["gc", BUCKET, "--dry-run", "--grace-days", "0"]) == 0
    assert "2 things would be done" in capsys.readouterr().out
    assert main(["gc", BUCKET, "--json", "--grace-days", "0"]) == 0
    assert sorted(row["key"] for row in rows(capsys)[:-1]) == sorted(key for key, _ in left)
    assert main(["verify", BUCKET, "--deep"]) == 0


def test_repack_makes_an_object_stand_alone(buckets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repack", f"{BUCKET}/run/", "--dry-run"]) == 0
    assert main(["repack", f"{BUCKET}/run/", "--level", "small", "--json"]) == 0
    capsys.readouterr()
    (buckets / BUCKET / KEYS[0]).unlink()
    assert main(["verify", BUCKET, "--deep", "--json"]) == 0
    assert [row["key"] for row in rows(capsys)[:-1]] == [KEYS[1]]


@pytest.mark.parametrize("command", [["verify"], ["verify", "--json"], ["repack", "--dry-run"]])
def test_a_prefix_with_nothing_below_it_fails(
    buckets: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert main([*command, f"{BUCKET}/nosuch/"]) == 1
    assert f"{BUCKET}/nosuch/: expected objects, found nothing there" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["verify", "explain", "gc", "repack"])
def test_beside_a_proxy_on_a_directory_it_is_said_what_to_do(
    buckets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    async def beside() -> int:
        async with _objects(buckets, tmp_path):
            return await asyncio.to_thread(main, [command, f"{BUCKET}/{KEYS[0]}"])

    assert asyncio.run(beside()) == 1
    assert "end the other one" in capsys.readouterr().err


def test_a_target_without_a_bucket_is_refused(buckets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "s3://"]) == 1
    assert "expected BUCKET" in capsys.readouterr().err


def test_a_file_in_place_of_a_bucket_is_named_with_what_looks_at_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("S4W_UPSTREAM", raising=False)
    Path("model.s4w").write_bytes(b"")
    for target in ("model.s4w", str(tmp_path / "model.s4w")):
        assert main(["verify", target]) == 1
        assert "found a file: `s4weights inspect`" in capsys.readouterr().err


def test_one_object_that_needs_another_says_how_it_is_unpacked(
    buckets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["unpack", str(buckets / BUCKET / KEYS[1]), "-o", str(tmp_path / "back")]) == 1
    found = capsys.readouterr().err
    assert "found no file of that name" in found
    assert "unpack -r" in found
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("place", [BUCKET, f"{BUCKET}/run"])
def test_a_bucket_copied_without_the_proxy_is_restored_with_its_bases(
    buckets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """The first step is deleted and lives on among the hidden bases, where the whole bucket was copied."""
    bodies: dict[str, bytes] = {}

    async def read_and_delete() -> None:
        async with _objects(buckets, tmp_path, rebase=False) as objects:
            for key in KEYS[:2]:
                bodies[key] = await read_all(objects, key)
            if place == BUCKET:
                await objects.delete(BUCKET, KEYS[0])
                del bodies[KEYS[0]]

    asyncio.run(read_and_delete())
    assert main(["unpack", "-r", str(buckets / place), str(tmp_path / "back")]) == 0
    for key, data in bodies.items():
        assert (tmp_path / "back" / f"{BUCKET}/{key}".removeprefix(f"{place}/")).read_bytes() == data
    assert not list((tmp_path / "back").rglob(".s4weights"))
