"""The object layer over a real directory, without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from s4weights.proxy.config import Settings
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.objects.parts import CopiedBody
from s4weights.proxy.upstream.directory import DirectoryUpstream

Kind = TypeVar("Kind", bound=DirectoryUpstream)
BUCKET = "training"
MIB = 1 << 20


async def pieces(data: bytes, size: int = MIB) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def body(data: bytes, size: int = MIB) -> CopiedBody:
    return CopiedBody(pieces(data, size))


async def read_all(objects: Objects, key: str, first: int = 0, length: int | None = None) -> bytes:
    found = await objects.resolve(BUCKET, key)
    wanted = found.info.size - first if length is None else length
    return b"".join([chunk async for chunk in objects.read(found, first, wanted)])


async def assert_nothing_left(objects: Objects, upstream: DirectoryUpstream) -> None:
    """Of uploads that have ended: in the bucket, in the journal, on disk and in memory."""
    assert await upstream.list_uploads(BUCKET) == []
    assert list(objects.store.journal.left_open()) == []
    assert list(objects.store.journal.spill_dir.iterdir()) == []
    assert (objects.store.writes.used_bytes, objects.store.parts.used_bytes) == (0, 0)


def safetensors(weights: np.ndarray) -> bytes:
    """A file of one bf16 tensor. weights: float32; their upper halves are stored."""
    halves = (weights.astype(np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    header = f'{{"layer.weight":{{"dtype":"BF16","shape":[{weights.size}],"data_offsets":[0,{len(halves)}]}}}}'
    header = header.ljust(-(-len(header) // 8) * 8)
    return len(header).to_bytes(8, "little") + header.encode() + halves


@pytest.fixture(scope="session")
def weights() -> Callable[[int], bytes]:
    """A checkpoint of about the given size whose values are spread as trained weights are."""

    def make(size: int, seed: int = 0) -> bytes:
        return safetensors(np.random.default_rng(seed).normal(0, 0.02, size // 2))

    return make


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(upstream=str(tmp_path / "buckets"), state_dir=tmp_path / "state")


@asynccontextmanager
async def directory_with_bucket(kind: type[Kind], tmp_path: Path) -> AsyncIterator[Kind]:
    """An upstream of that kind where `settings` look for it, started, with BUCKET in it."""
    (tmp_path / "buckets").mkdir()
    directory = kind(tmp_path / "buckets")
    await directory.start()
    await directory.create_bucket(BUCKET)
    yield directory
    await directory.close()


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[DirectoryUpstream]:
    async with directory_with_bucket(DirectoryUpstream, tmp_path) as directory:
        yield directory


@pytest.fixture
async def objects(upstream: DirectoryUpstream, settings: Settings) -> AsyncIterator[Objects]:
    layer = Objects(upstream, settings, Metrics())
    await layer.start()
    yield layer
    await layer.close()


@pytest.fixture
async def small_memory(upstream: DirectoryUpstream, settings: Settings, tmp_path: Path) -> AsyncIterator[Objects]:
    """No room for waiting parts: all of them go to disk."""
    tight = replace(settings, memory_bytes=2, state_dir=tmp_path / "tight")
    layer = Objects(upstream, tight, Metrics())
    await layer.start()
    yield layer
    await layer.close()
