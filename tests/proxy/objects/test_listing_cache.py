"""The cache of listings: what survives, what is forgotten, and what a damaged file costs."""

from __future__ import annotations

import os
import shutil
import sqlite3
from datetime import UTC, datetime

import pytest

from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.listing_cache import ListingCache, Logical
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.protocol import NO_CONDITIONS, Entry

from .conftest import BUCKET, body

TIME = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
ENTRY = Entry("steps/\udcff'\"%", 5_000, "e" * 32 + "-2", TIME)
KNOWN = Logical(9_000, "a" * 32)


@pytest.fixture
async def open_cache(tmp_path):
    opened = []

    async def make(rows: int = 100) -> ListingCache:
        opened.append(ListingCache(tmp_path / "listings.sqlite", rows))
        await opened[-1].open()
        return opened[-1]

    yield make
    for one in opened:
        await one.close()


async def test_a_restart_keeps_what_is_known(open_cache):
    first = await open_cache()
    await first.add("b", {ENTRY: KNOWN})
    await first.close()
    assert await (await open_cache()).find("b", [ENTRY]) == {ENTRY: KNOWN}


@pytest.mark.parametrize(
    "other",
    [
        Entry("other", ENTRY.size, ENTRY.etag, TIME),
        Entry(ENTRY.key, ENTRY.size + 1, ENTRY.etag, TIME),
        Entry(ENTRY.key, ENTRY.size, "f" * 32, TIME),
        Entry(ENTRY.key, ENTRY.size, ENTRY.etag, TIME.replace(microsecond=0)),
        Entry(ENTRY.key, ENTRY.size, ENTRY.etag, TIME, version_id="1"),
    ],
    ids=["key", "size", "etag", "time", "version"],
)
async def test_another_version_is_not_known(open_cache, other):
    cache = await open_cache()
    await cache.add("b", {ENTRY: KNOWN})
    assert await cache.find("b", [other]) == {}
    assert await cache.find("c", [ENTRY]) == {}


async def test_rows_are_bounded_and_the_newest_stay(open_cache):
    cache = await open_cache(20)
    entries = [Entry(f"{number}", 5_000, "e", TIME) for number in range(100)]
    for entry in entries:
        await cache.add("b", {entry: KNOWN})
        await cache.add("b", {entries[0]: KNOWN})  # looked at again and again
    found = await cache.find("b", entries)
    assert 10 < len(found) <= 20
    assert {entries[0], entries[-1]} <= found.keys()


@pytest.mark.parametrize("damage", ["text", "cut", "layout", "schema"])
async def test_a_damaged_file_is_made_anew_with_a_line_in_the_log(open_cache, tmp_path, caplog, damage):
    cache, path = await open_cache(10_000), tmp_path / "listings.sqlite"
    await cache.add("b", {Entry(f"{number}", 5_000, "e", TIME): KNOWN for number in range(1_000)})
    await cache.close()
    if damage == "text":
        path.write_bytes(b"no database at all" * 1_000)
    elif damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 99" if damage == "layout" else "DROP TABLE entries")
        connection.close()
    cache = await open_cache()
    assert await cache.find("b", [ENTRY]) == {}
    await cache.add("b", {ENTRY: KNOWN})
    assert await cache.find("b", [ENTRY]) == {ENTRY: KNOWN}
    assert "made anew" in caplog.text


async def test_damage_while_it_runs_costs_the_cache_alone(open_cache, tmp_path, caplog):
    cache, path = await open_cache(100_000), tmp_path / "listings.sqlite"
    entries = {Entry(f"{number}", 5_000, "e", TIME): KNOWN for number in range(60_000)}
    await cache.add("b", entries)
    await cache.close()
    cache = await open_cache(100_000)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    assert await cache.find("b", list(entries)) == {}
    await cache.add("b", {ENTRY: KNOWN})
    assert await cache.find("b", [ENTRY]) == {ENTRY: KNOWN}
    assert "made anew" in caplog.text


async def test_a_size_that_changed_on_disk_is_not_believed(open_cache, tmp_path):
    cache = await open_cache()
    await cache.add("b", {ENTRY: KNOWN})
    await cache.close()
    connection = sqlite3.connect(tmp_path / "listings.sqlite")
    with connection:
        connection.execute("UPDATE entries SET size = size + 1")
    connection.close()
    assert await (await open_cache()).find("b", [ENTRY]) == {}


async def test_a_directory_that_cannot_be_written_costs_the_cache_alone(tmp_path, caplog):
    (tmp_path / "listings.sqlite").mkdir()
    cache = ListingCache(tmp_path / "listings.sqlite", 10)
    await cache.open()
    await cache.add("b", {ENTRY: KNOWN})
    assert await cache.find("b", [ENTRY]) == {}
    await cache.close()
    assert "cannot be used" in caplog.text


async def listed(objects, upstream):
    return await objects.logical_entries(BUCKET, (await upstream.list_objects(BUCKET)).entries)


async def test_listings_stay_right_over_restarts_and_overwrites_behind_our_back(
    objects, upstream, settings, weights, tmp_path
):
    first, second = weights(200_000, 1), weights(300_000, 2)
    await objects.put(BUCKET, "a", body(first), len(first), {}, NO_CONDITIONS)
    await objects.put(BUCKET, "b", body(second), len(second), {}, NO_CONDITIONS)
    assert [row.size for row in await listed(objects, upstream)] == [len(first), len(second)]
    await objects.close()
    # Looked at by another proxy later, on the same state: nothing is read again.
    again = Objects(upstream, settings, Metrics())
    await again.start()
    read = []
    get, upstream.get = upstream.get, lambda *names, **rest: read.append(names[1]) or get(*names, **rest)
    assert [row.size for row in await listed(again, upstream)] == [len(first), len(second)]
    assert read == []
    shutil.copyfile(tmp_path / "buckets" / BUCKET / "b", tmp_path / "buckets" / BUCKET / "a")
    (tmp_path / "buckets" / BUCKET / "b").write_bytes(bytes(9_999))
    assert [row.size for row in await listed(again, upstream)] == [len(second), 9_999]
    assert sorted(read) == ["a", "b"]
    await again.close()


async def test_the_file_names_no_key_and_is_the_owners_alone(objects, upstream, settings, weights):
    data = weights(200_000)
    await objects.put(BUCKET, "a-secret-plan", body(data), len(data), {}, NO_CONDITIONS)
    await listed(objects, upstream)
    files = list(settings.state_dir.glob("listings.sqlite*"))
    assert files
    for file in files:
        assert b"secret-plan" not in file.read_bytes()
        assert file.stat().st_mode & 0o77 == 0
