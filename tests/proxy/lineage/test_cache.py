"""Containers on the local disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from s4weights.proxy.lineage.cache import ContainerCache
from s4weights.proxy.lineage.names import Content

ONE, TWO, THREE = (Content(f"{n:032x}", 100 + n) for n in range(3))


def opened(folder: Path, max_bytes: int | None) -> ContainerCache:
    cache = ContainerCache(folder, max_bytes)
    cache.open()
    return cache


def keep(cache: ContainerCache, content: Content, data: bytes, depth: int = 0) -> None:
    writing = cache.begin()
    assert writing is not None
    writing.write([data])
    writing.keep(content, depth)


def kept(cache: ContainerCache, content: Content, max_depth: int = 0) -> bytes | None:
    path = cache.find(content, max_depth)
    return None if path is None else path.read_bytes()


def test_a_container_is_kept_over_a_restart(tmp_path: Path) -> None:
    keep(opened(tmp_path, 1000), ONE, b"x" * 100)
    assert kept(opened(tmp_path, 1000), ONE) == b"x" * 100


def test_one_of_greater_depth_is_not_given(tmp_path: Path) -> None:
    cache = opened(tmp_path, 1000)
    keep(cache, ONE, b"deep", depth=2)
    assert kept(cache, ONE, 1) is None
    assert kept(cache, ONE, 2) == b"deep"


def test_the_one_read_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = opened(tmp_path, 250)
    keep(cache, ONE, b"1" * 100)
    keep(cache, TWO, b"2" * 100)
    assert kept(cache, ONE) is not None
    keep(cache, THREE, b"3" * 100)
    assert kept(cache, TWO) is None
    assert kept(cache, ONE) is not None
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 200


def test_what_is_written_can_be_read_before_the_end_and_goes_where_it_is_dropped(tmp_path: Path) -> None:
    cache = opened(tmp_path, 1000)
    writing = cache.begin()
    assert writing is not None
    writing.write([b"abc"])
    writing.write([b"def"])
    assert writing.read(2, 3) == b"cde"
    assert writing.read(4, 3) is None
    writing.drop()
    assert list(tmp_path.iterdir()) == []


def test_a_container_past_half_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = opened(tmp_path, 100)
    writing = cache.begin()
    assert writing is not None
    writing.write([b"x" * 51])
    assert writing.read(0, 1) is None
    writing.keep(ONE, 0)
    assert kept(cache, ONE) is None


def test_what_a_crash_left_half_written_goes_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "0123.partial").write_bytes(b"half")
    opened(tmp_path, 1000)
    assert list(tmp_path.iterdir()) == []


def test_a_container_that_turned_out_damaged_is_let_go(tmp_path: Path) -> None:
    cache = opened(tmp_path, 1000)
    keep(cache, ONE, b"x")
    path = cache.find(ONE, 0)
    assert path is not None
    cache.forget(path)
    assert cache.find(ONE, 0) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("max_bytes", [0, None])
def test_size_zero_keeps_nothing_and_none_takes_a_share_of_what_is_free(tmp_path: Path, max_bytes: int | None) -> None:
    cache = opened(tmp_path, max_bytes)
    assert (cache.max_bytes > 0) == (max_bytes is None)
    writing = cache.begin()
    assert (writing is None) == (max_bytes == 0)
    if writing is not None:
        writing.drop()


def test_a_folder_that_cannot_be_made_turns_the_cache_off(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = opened(tmp_path / "file" / "cache", 1000)
    assert cache.begin() is None


def test_a_file_is_not_closed_under_a_thread_that_writes_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    container = opened(tmp_path, 1000).begin()
    assert container is not None
    begins, goes_on = threading.Event(), threading.Event()
    written: list[int] = []
    real = os.writev

    def slow(file: int, pieces: Sequence[bytes]) -> int:
        begins.set()
        goes_on.wait()
        written.append(real(file, pieces))  # a closed descriptor raises, or is somebody else's by now
        return written[-1]

    monkeypatch.setattr(os, "writev", slow)
    writing = threading.Thread(target=container.write, args=([b"frame"],))
    dropping = threading.Thread(target=container.drop)
    writing.start()
    begins.wait()
    dropping.start()
    dropping.join(0.2)
    goes_on.set()
    writing.join()
    dropping.join()
    assert written == [5]
    assert container.read(0, 5) is None
