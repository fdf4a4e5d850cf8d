"""The directory upstream: any key, no way out, whole or not at all."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from s4weights.codec.errors import ConfigError
from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.directory import DirectoryUpstream, listing
from s4weights.proxy.upstream.directory.files import TemporaryBody
from s4weights.proxy.upstream.directory.keymap import join_names, split_key


@pytest.fixture
async def store(tmp_path):
    (tmp_path / "bucket").mkdir()
    one = DirectoryUpstream(tmp_path)
    await one.start()
    yield one
    await one.close()


async def put(store, key, data=b"x"):
    return await store.put("bucket", key, data, len(data), {})


async def read(store, key):
    body = await store.get("bucket", key)
    return b"".join([chunk async for chunk in body.chunks])


KEYS = st.text(
    st.one_of(st.sampled_from("a./%\\~ \x00\x1f"), st.characters(exclude_categories=["Cs"])), min_size=1, max_size=12
).filter(lambda key: "\x00" not in key)


@given(KEYS)
@settings(max_examples=300)
def test_names_lead_back_to_their_key(key):
    names = split_key(key)
    assert join_names(names) == key
    for name in names:
        assert name not in ("", ".", "..")
        assert "/" not in name
        assert len(os.fsencode(name)) <= 255


@pytest.mark.parametrize("key", ["a" * 1024, "%" * 400, "ü" * 500, "a/" * 300, "/", "//", "a//b", "../../etc/passwd"])
def test_long_and_strange_keys_lead_back(key):
    assert join_names(split_key(key)) == key


@given(st.sets(KEYS, min_size=1, max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_set_of_keys_is_stored_listed_in_order_and_removed(tmp_path_factory, keys):
    async def run():
        root = tmp_path_factory.mktemp("root")
        (root / "bucket").mkdir()
        store = DirectoryUpstream(root)
        await store.start()
        for key in keys:
            await put(store, key, key.encode())
        page = await store.list_objects("bucket")
        assert [entry.key for entry in page.entries] == sorted(keys, key=str.encode)
        for key in keys:
            assert await read(store, key) == key.encode()
        outside = [
            path
            for path in root.rglob("*")
            if ".s4weights" not in path.parts and path.parts[: len(root.parts)] != root.parts
        ]
        assert outside == []
        for key in keys:
            await store.delete("bucket", key)
        assert (await store.list_objects("bucket")).entries == []
        assert list((root / "bucket").iterdir()) == []
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("order", [("a", "a/b", "a/b/c"), ("a/b/c", "a/b", "a"), ("a/b", "a", "a/b/c")])
async def test_a_key_may_be_the_folder_of_another(store, order):
    for key in order:
        await put(store, key, key.encode())
    for key in order:
        assert await read(store, key) == key.encode()
        await put(store, key, b"again")
        assert await read(store, key) == b"again"
    assert [entry.key for entry in (await store.list_objects("bucket")).entries] == ["a", "a/b", "a/b/c"]
    page = await store.list_objects("bucket", delimiter="/")
    assert ([entry.key for entry in page.entries], page.prefixes) == (["a"], ["a/"])


async def test_readable_paths(store, tmp_path):
    await put(store, "ckpt/step-10/model.safetensors", b"data")
    assert (tmp_path / "bucket/ckpt/step-10/model.safetensors").read_bytes() == b"data"


@pytest.mark.parametrize("key", ["../outside", "a/../../outside", "/etc/passwd", "..", "a/..", "./x"])
async def test_no_key_leaves_the_bucket(store, tmp_path, key):
    await put(store, key, b"data")
    files = [
        path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file() and ".s4weights" not in path.parts
    ]
    assert all(path.parts[0] == "bucket" and ".." not in path.parts for path in files)
    assert len(files) == 1
    assert await read(store, key) == b"data"


async def test_links_are_not_followed(store, tmp_path):
    secret = tmp_path.parent / "secret"
    secret.write_bytes(b"secret")
    (tmp_path / "bucket/link").symlink_to(secret)
    (tmp_path / "bucket/folder").symlink_to(tmp_path.parent)
    for key in ("link", "folder/secret"):
        with pytest.raises(S3Error, match="NoSuchKey"):
            await store.get("bucket", key)
    assert (await store.list_objects("bucket")).entries == []
    await put(store, "link", b"mine")
    await put(store, "folder/secret", b"mine")
    assert secret.read_bytes() == b"secret"
    assert await read(store, "link") == await read(store, "folder/secret") == b"mine"


@pytest.mark.parametrize("name", [".s4weights", "..", "a", "UPPER/slash", "-a-", "x" * 64, ""])
async def test_bucket_names_that_cannot_be(store, name):
    for call in (store.create_bucket, store.head_bucket, store.list_objects):
        with pytest.raises(S3Error, match="InvalidBucketName"):
            await call(name)


async def test_files_put_there_by_hand_are_objects(store, tmp_path):
    (tmp_path / "bucket/old").mkdir()
    (tmp_path / "bucket/old/model.pt").write_bytes(b"by hand")
    assert await read(store, "old/model.pt") == b"by hand"
    info = await store.head("bucket", "old/model.pt")
    [row] = (await store.list_objects("bucket", prefix="old/")).entries
    assert (row.size, row.etag) == (7, info.etag)


async def test_a_file_changed_by_hand_loses_its_metadata_not_its_bytes(store, tmp_path):
    await store.put("bucket", "k", b"data", 4, {"x-amz-meta-a": "1"})
    (tmp_path / "bucket/k").write_bytes(b"other")
    assert await read(store, "k") == b"other"
    assert "x-amz-meta-a" not in (await store.head("bucket", "k")).headers


async def test_a_read_keeps_its_version(store):
    old, new = b"o" * 3_000_000, b"n" * 3_000_000
    await put(store, "k", old)
    body = await store.get("bucket", "k")
    chunks = [await anext(body.chunks)]
    await put(store, "k", new)
    chunks += [chunk async for chunk in body.chunks]
    assert b"".join(chunks) == old
    assert await read(store, "k") == new


async def test_one_process_a_directory(store, tmp_path):
    second = DirectoryUpstream(tmp_path)
    with pytest.raises(ConfigError, match="another s4weights"):
        await second.start()
    await second.close()


async def test_a_directory_that_is_not_there(tmp_path):
    store = DirectoryUpstream(tmp_path / "missing")
    with pytest.raises(ConfigError, match="expected a directory"):
        await store.start()
    await store.close()


@pytest.mark.parametrize("key", ["a" * 1000, "%" * 1024])
async def test_keys_longer_than_a_file_name_are_kept(store, key):
    await put(store, key, b"data")
    assert await read(store, key) == b"data"


async def test_a_key_deeper_than_python_recurses_is_listed(store, tmp_path):
    key = "/" * 980
    await put(store, key)
    await put(store, "a")
    try:
        assert [entry.key for entry in (await store.list_objects("bucket")).entries] == [key, "a"]
    finally:  # pytest's own removal of old folders recurses
        await store.delete("bucket", key)
    assert [path.name for path in (tmp_path / "bucket").iterdir()] == ["a"]


async def test_a_key_whose_path_does_not_fit_is_refused_by_name(store):
    for call in (put(store, "/" * 1024), store.head("bucket", "/" * 1024), store.delete("bucket", "/" * 1024)):
        with pytest.raises(S3Error, match="KeyTooLongError"):
            await call


async def test_a_page_of_common_prefixes_looks_into_each_folder_once(store, tmp_path, monkeypatch):
    for step in range(30):
        for name in ("a/x", "b/x", "c/x"):
            path = tmp_path / f"bucket/step-{step:02}" / name
            path.parent.mkdir(parents=True)
            path.write_bytes(b"x")
    looks = []
    scandir = os.scandir
    monkeypatch.setattr(listing.os, "scandir", lambda folder: looks.append(folder) or scandir(folder))
    page = await store.list_objects("bucket", delimiter="/")
    assert page.prefixes == [f"step-{step:02}/" for step in range(30)]
    assert len(looks) == len(set(looks)) <= 1 + 2 * 30


async def paged(store, **options):
    keys, after = [], ""
    while after is not None:
        page = await store.list_objects("bucket", after=after, **options)
        keys += [entry.key for entry in page.entries]
        after = page.next_after
    return keys


LONG = "a" * 240


@pytest.mark.parametrize("max_keys", [1, 2, 1000])
async def test_pages_hold_keys_with_long_components_in_order(store, max_keys):
    keys = [LONG, LONG + "!", LONG + "/b", LONG + "z", LONG + "z/c", "b" * 239 + "!", "b" * 239 + "%x", "b" * 239 + "z"]
    keys += [LONG + "z" * 240 + end for end in ("!", "/d", "z")]
    for key in keys:
        await put(store, key)
    assert await paged(store, max_keys=max_keys) == sorted(keys)
    assert await paged(store, max_keys=max_keys, prefix=LONG + "z") == sorted(
        k for k in keys if k.startswith(LONG + "z")
    )


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_a_body_that_nobody_reads_gives_its_file_back(store):
    await put(store, "k")
    await (await store.get("bucket", "k")).aclose()
    before = open_files()
    bodies = [await store.get("bucket", "k") for _ in range(5)]
    for body in bodies:
        await body.aclose()
    assert open_files() == before


async def test_listing_goes_on_where_folders_are_removed_meanwhile(store):
    await put(store, "always")
    stop = asyncio.Event()

    async def come_and_go(number):
        while not stop.is_set():
            await put(store, f"d{number}/e/k")
            await store.delete("bucket", f"d{number}/e/k")

    tasks = [asyncio.create_task(come_and_go(number)) for number in range(4)]
    for _ in range(150):
        assert "always" in await paged(store)
    stop.set()
    await asyncio.gather(*tasks)


async def test_a_cancelled_write_ends_its_disk_call_before_it_closes_the_file(store, tmp_path, monkeypatch):
    begun, in_call, closed_meanwhile = threading.Event(), threading.Event(), []
    sync, close = TemporaryBody.sync, TemporaryBody.close

    def slow_sync(body):
        in_call.set()
        begun.set()
        time.sleep(0.1)
        sync(body)
        in_call.clear()

    def watched_close(body):
        closed_meanwhile.append(in_call.is_set())
        close(body)

    monkeypatch.setattr(TemporaryBody, "sync", slow_sync)
    monkeypatch.setattr(TemporaryBody, "close", watched_close)
    task = asyncio.create_task(put(store, "k"))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed_meanwhile
    assert not any(closed_meanwhile)
    assert list((tmp_path / ".s4weights/tmp").iterdir()) == []


async def test_a_torn_upload_does_not_hide_the_others(store, tmp_path):
    torn = await store.create_upload("bucket", "torn", {})
    whole = await store.create_upload("bucket", "whole", {})
    (tmp_path / ".s4weights/uploads" / torn / "upload.json").write_bytes(b"")
    assert [one.upload_id for one in await store.list_uploads("bucket")] == [whole]
    with pytest.raises(S3Error, match="NoSuchUpload"):
        await store.put_part("bucket", "torn", torn, 1, b"x", 1)


async def test_an_upload_that_is_gone_is_named_so(store):
    upload_id = await store.create_upload("bucket", "k", {})
    await store.abort_upload("bucket", "k", upload_id)
    with pytest.raises(S3Error, match="NoSuchUpload"):
        await store.abort_upload("bucket", "k", upload_id)


async def test_a_link_is_no_bucket(store, tmp_path):
    (tmp_path / "linked").symlink_to(tmp_path / "bucket")
    assert [one.name for one in await store.list_buckets()] == ["bucket"]
    with pytest.raises(S3Error, match="NoSuchBucket"):
        await store.head_bucket("linked")


async def test_names_are_durable_before_a_write_is_answered(store, tmp_path, monkeypatch):
    synced = set()
    fsync = os.fsync

    def watched(fd):
        synced.add(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    await put(store, "new/folder/k")
    own = tmp_path / ".s4weights/meta"
    folders = [tmp_path / "bucket", tmp_path / "bucket/new", tmp_path / "bucket/new/folder", own, own / "bucket"]
    assert synced >= {str(folder) for folder in folders}


WRITER = """
import asyncio, sys
from pathlib import Path
from s4weights.proxy.upstream.directory import DirectoryUpstream
async def main():
    store = DirectoryUpstream(Path(sys.argv[1]))
    await store.start()
    for number in range(1_000_000):
        data = bytes([number % 251]) * 200_000
        await store.put("bucket", "k", data, len(data), {"x-amz-meta-n": str(number % 251)})
        if number == 0:
            print("started", flush=True)
asyncio.run(main())
"""


async def test_kill_leaves_the_old_or_the_new_object_whole(tmp_path):
    (tmp_path / "bucket").mkdir()
    for round_ in range(4):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"started\n"
            time.sleep(0.05 + 0.03 * round_)
            writer.send_signal(signal.SIGKILL)
        store = DirectoryUpstream(Path(tmp_path))
        await store.start()
        data = await read(store, "k")
        info = await store.head("bucket", "k")
        assert len(data) == 200_000
        assert set(data) == {int(info.headers["x-amz-meta-n"])}
        assert list((tmp_path / ".s4weights/tmp").iterdir()) == []
        await store.close()
