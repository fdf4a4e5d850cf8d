"""Checkpoints coded against earlier ones, over a real directory."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from s4weights.codec.container import REPLACEABLE, depth_on, read_bases
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import NativeEngine
from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error
from s4weights.proxy.lineage.names import ALL_HIDDEN, ALL_PINS, ALL_TOMBS, HIDDEN
from s4weights.proxy.lineage.perform import list_keys
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.marker import container_marker
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import Conditions, Part

from .conftest import BUCKET, body, read_all

ELEMENTS = 1 << 20
KEYS = [f"run/checkpoint-{n}/model.safetensors" for n in (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110)]


def file_of(tensors: dict[str, tuple[str, bytes]]) -> bytes:
    header, at = {}, 0
    for name, (kind, data) in tensors.items():
        width = {"BF16": 2, "F32": 4}[kind]
        header[name] = {"dtype": kind, "shape": [len(data) // width], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(data for _, data in tensors.values())


def rounded(values: np.ndarray) -> bytes:
    bits = values.astype("<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


class Run:
    """Weights that move a little from step to step."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.weights = self.random.normal(0, 0.02, ELEMENTS)

    def step(self) -> bytes:
        self.weights = self.weights + self.random.normal(0, 2e-6, ELEMENTS)
        return file_of({"w": ("BF16", rounded(self.weights))})

    def mixed(self) -> bytes:
        self.step()
        master = self.weights.astype("<f4")
        return file_of({"w": ("BF16", rounded(master)), "master.w": ("F32", master.tobytes())})


async def put(objects: Objects, key: str, data: bytes) -> None:
    await objects.put(BUCKET, key, body(data), len(data), {})


async def put_two(objects: Objects) -> bytes:
    """The first two steps of a run. Returns the second one, which is stored against the first."""
    run = Run()
    first, second = run.step(), run.step()
    await put(objects, KEYS[0], first)
    await put(objects, KEYS[1], second)
    return second


async def stored_bytes(objects: Objects, key: str) -> int:
    return (await objects.resolve(BUCKET, key)).stored.size


async def bases(objects: Objects, key: str) -> list[str]:
    found = await objects.resolve(BUCKET, key)
    assert found.tail is not None
    assert found.tail.index is not None
    return [base.key for base in read_bases(found.tail.index.about)]


async def under(objects: Objects, prefix: str) -> list[str]:
    if objects.store.settings.rebase:
        await objects.rebaser.idle()
    return await list_keys(objects.store.upstream, BUCKET, prefix)


async def test_a_step_is_coded_against_the_one_before(objects: Objects) -> None:
    run = Run()
    steps = [run.step() for _ in range(3)]
    for key, data in zip(KEYS, steps, strict=False):
        await put(objects, key, data)
    assert await bases(objects, KEYS[0]) == []
    assert await bases(objects, KEYS[1]) == [KEYS[0]]
    assert await bases(objects, KEYS[2]) == [KEYS[1]]
    assert await stored_bytes(objects, KEYS[1]) < 0.6 * await stored_bytes(objects, KEYS[0])
    assert len(await under(objects, ALL_PINS)) == 2
    for key, data in zip(KEYS, steps, strict=False):
        assert await read_all(objects, key) == data
        assert await read_all(objects, key, 1_000_001, 77_777) == data[1_000_001 : 1_000_001 + 77_777]


async def test_a_new_process_finds_the_step_before_in_the_bucket(
    upstream: DirectoryUpstream, settings: Settings, tmp_path: Path
) -> None:
    run = Run()
    first, second = run.step(), run.step()
    for number, (key, data) in enumerate(zip(KEYS, (first, second), strict=False)):
        objects = Objects(upstream, replace(settings, state_dir=tmp_path / f"state{number}"), Metrics())
        await objects.start()
        await put(objects, key, data)
        assert await read_all(objects, key) == data
        if number:
            assert await bases(objects, key) == [KEYS[0]]
        await objects.close()


async def test_a_base_that_is_deleted_stays_for_its_dependent_and_goes_with_it(
    upstream: DirectoryUpstream, settings: Settings
) -> None:
    objects = Objects(upstream, replace(settings, rebase=False), Metrics())
    await objects.start()
    second = await put_two(objects)
    await objects.delete(BUCKET, KEYS[0])
    with pytest.raises(S3Error, match="NoSuchKey"):
        await objects.resolve(BUCKET, KEYS[0])
    assert len(await under(objects, ALL_HIDDEN)) == 1
    assert await under(objects, ALL_TOMBS) == []
    assert await read_all(objects, KEYS[1]) == second
    await objects.delete(BUCKET, KEYS[1])
    assert await under(objects, "") == []
    await objects.close()


async def test_a_base_that_is_overwritten_stays_for_its_dependent(objects: Objects) -> None:
    second = await put_two(objects)
    await put(objects, KEYS[0], Run(1).step())
    assert await read_all(objects, KEYS[1]) == second
    await put(objects, KEYS[0], b"no checkpoint at all")
    assert await read_all(objects, KEYS[1]) == second


async def test_a_chain_has_an_end_and_a_restore_reads_a_bounded_number_of_bytes(objects: Objects) -> None:
    run = Run()
    deepest = 0
    for key in KEYS:
        await put(objects, key, run.step())
        found = await objects.resolve(BUCKET, key)
        assert found.tail is not None
        assert found.tail.index is not None
        about = found.tail.index.about
        deepest = max(deepest, depth_on(read_bases(about)))
        plain = about.get("plain", found.stored.size)
        assert about.get("restore", found.stored.size) <= 3.0 * plain
    assert deepest == 8


async def test_an_exact_copy_costs_next_to_nothing(objects: Objects) -> None:
    data = Run().step()
    await put(objects, "run/epoch=1-step=10.ckpt", data)
    await put(objects, "run/last.ckpt", data)
    assert await bases(objects, "run/last.ckpt") == ["run/epoch=1-step=10.ckpt"]
    assert await stored_bytes(objects, "run/last.ckpt") < 4096
    assert await read_all(objects, "run/last.ckpt") == data
    await objects.delete(BUCKET, "run/epoch=1-step=10.ckpt")
    assert await read_all(objects, "run/last.ckpt") == data


async def test_a_master_copy_is_coded_against_its_rounded_twin(objects: Objects) -> None:
    run = Run()
    plain = file_of({"w": ("BF16", rounded(run.weights))})
    await put(objects, "a/plain.safetensors", plain)
    data = run.mixed()
    await put(objects, "b/mixed.safetensors", data)
    alone = await stored_bytes(objects, "a/plain.safetensors")
    assert await stored_bytes(objects, "b/mixed.safetensors") < alone + 2.05 * ELEMENTS
    assert await read_all(objects, "b/mixed.safetensors") == data
    assert await read_all(objects, "b/mixed.safetensors", len(data) - 1000, 1000) == data[-1000:]


async def test_a_base_removed_behind_our_back_is_named_and_nothing_else_is_affected(
    objects: Objects, upstream: DirectoryUpstream, tmp_path: Path, settings: Settings
) -> None:
    run = Run()
    first, second, apart = run.step(), run.step(), Run(5).step()
    await put(objects, KEYS[0], first)
    await put(objects, KEYS[1], second)
    await put(objects, "elsewhere.safetensors", apart)
    await upstream.delete(BUCKET, KEYS[0])
    other = Objects(upstream, replace(settings, state_dir=tmp_path / "other"), Metrics())
    await other.start()
    with pytest.raises(Exception, match=KEYS[0]):
        await read_all(other, KEYS[1])
    assert await read_all(other, "elsewhere.safetensors") == apart
    assert await read_all(objects, KEYS[1]) == second  # its own cache still has it
    await other.close()


async def test_a_renamed_dependent_keeps_its_base(objects: Objects) -> None:
    second = await put_two(objects)
    found = await objects.resolve(BUCKET, KEYS[1])
    await objects.copy(found, BUCKET, "kept/best.safetensors", {}, replace=False)
    await objects.delete(BUCKET, KEYS[1])
    await objects.delete(BUCKET, KEYS[0])
    assert await read_all(objects, "kept/best.safetensors") == second


async def test_a_dependent_copied_to_another_bucket_stands_alone_there(objects: Objects) -> None:
    second = await put_two(objects)
    await objects.store.upstream.create_bucket("other")
    found = await objects.resolve(BUCKET, KEYS[1])
    await objects.copy(found, "other", KEYS[1], {}, replace=False)
    for key in KEYS[:2]:
        await objects.delete(BUCKET, key)
    copied = await objects.resolve("other", KEYS[1])
    assert b"".join([chunk async for chunk in objects.read(copied, 0, copied.info.size)]) == second


async def test_a_multipart_upload_is_coded_against_the_step_before(objects: Objects) -> None:
    run = Run()
    first, second = run.step(), run.step()
    await put(objects, KEYS[0], first)
    upload = await objects.uploads.create(BUCKET, KEYS[1], {})
    part = await objects.uploads.put_part(BUCKET, KEYS[1], upload, 1, body(second), len(second))
    await objects.complete(BUCKET, KEYS[1], upload, [part], None)
    assert await bases(objects, KEYS[1]) == [KEYS[0]]
    assert await read_all(objects, KEYS[1]) == second


async def refused_upload(objects: Objects) -> tuple[bytes, str, Part]:
    """An upload of the second step of a run, whose end its condition refused. Returns its body, id and part."""
    run = Run()
    first, second = run.step(), run.step()
    await put(objects, KEYS[0], first)
    await put(objects, KEYS[1], b"in the way")
    upload = await objects.uploads.create(BUCKET, KEYS[1], {})
    part = await objects.uploads.put_part(BUCKET, KEYS[1], upload, 1, body(second), len(second))
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await objects.complete(BUCKET, KEYS[1], upload, [part], Conditions(if_none_match="*"))
    return second, upload, part


async def test_an_upload_whose_end_was_refused_keeps_its_base_until_it_ends(objects: Objects) -> None:
    second, upload, part = await refused_upload(objects)
    await objects.delete(BUCKET, KEYS[0])
    await objects.complete(BUCKET, KEYS[1], upload, [part], None)
    assert await bases(objects, KEYS[1]) == [KEYS[0]]
    assert await read_all(objects, KEYS[1]) == second
    await objects.delete(BUCKET, KEYS[1])
    assert await under(objects, HIDDEN) == []


async def test_an_upload_whose_end_was_refused_and_that_is_dropped_leaves_no_pin(objects: Objects) -> None:
    _, upload, _ = await refused_upload(objects)
    await objects.uploads.abort(BUCKET, KEYS[1], upload)
    assert await under(objects, ALL_PINS) == []


async def test_without_deltas_every_object_stands_alone(upstream: DirectoryUpstream, settings: Settings) -> None:
    objects = Objects(upstream, replace(settings, deltas=False), Metrics())
    await objects.start()
    run = Run()
    for key in KEYS[:2]:
        await put(objects, key, run.step())
    assert await bases(objects, KEYS[1]) == []
    assert await under(objects, HIDDEN) == []
    await objects.close()


async def test_a_write_that_fails_leaves_no_pin(objects: Objects) -> None:
    run = Run()
    await put(objects, KEYS[0], run.step())
    second = run.step()
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await objects.put(BUCKET, KEYS[0], body(second), len(second), {}, Conditions(if_none_match="*"))
    assert await under(objects, HIDDEN) == []


async def test_a_read_ends_where_the_object_is_overwritten_with_another_body(objects: Objects) -> None:
    run = Run()
    data = file_of({f"t{n}": ("BF16", rounded(run.weights + n)) for n in range(40)})
    await put(objects, "a.safetensors", data)
    found = await objects.resolve(BUCKET, "a.safetensors")
    read = objects.read(found, 0, found.info.size)
    await anext(read)
    await put(objects, "a.safetensors", run.step())
    with pytest.raises(S3Error, match="PreconditionFailed"):
        async for _ in read:
            pass


async def test_an_object_that_goes_while_a_base_is_looked_for_is_no_fault(objects: Objects) -> None:
    run = Run()
    for key in ("a/model.safetensors", "b/model.safetensors"):
        await put(objects, key, run.step())
    predecessors = objects.store.lineage.predecessors
    resolve = predecessors._resolver.resolve

    async def remove_and_resolve(bucket: str, key: str, **options: object) -> object:
        for one in ("a/model.safetensors", "b/model.safetensors"):
            predecessors.removed(bucket, one)
        raise S3Error("NoSuchKey")

    predecessors._resolver.resolve = remove_and_resolve  # type: ignore[assignment, method-assign]
    try:
        assert await predecessors.find(BUCKET, "c/checkpoint-5/model.safetensors", 2_000_000) is None
    finally:
        predecessors._resolver.resolve = resolve  # type: ignore[method-assign]


async def test_what_its_writer_may_replace_past_the_proxy_is_no_base(objects: Objects) -> None:
    run = Run()
    encoder, engine = Encoder(), NativeEngine()
    frames = [*encoder.plan(run.step()), *encoder.plan_end()]
    stored = encoder.start() + b"".join(
        bytes(piece) for one in frames for piece in encoder.add(encode_frame(one, engine))
    )
    stored += encoder.finish(more={REPLACEABLE: True})
    await objects.store.upstream.put(BUCKET, KEYS[0], stored, len(stored), container_marker())
    second = run.step()
    await put(objects, KEYS[1], second)
    assert await bases(objects, KEYS[1]) == []


async def test_a_cache_whose_folder_is_replaced_by_a_file_fails_no_save(objects: Objects, settings: Settings) -> None:
    run = Run()
    folder = settings.state_dir / "containers"
    await put(objects, KEYS[0], run.step())
    shutil.rmtree(folder)
    folder.write_bytes(b"")
    second = run.step()
    await put(objects, KEYS[1], second)
    assert await read_all(objects, KEYS[1]) == second
