"""Any history of a multipart upload that hypothesis thinks of, beside plain bytes: an acknowledged Complete shows just the
bytes that its ETags name, nothing else ever shows, an upload that no rule of S3 has ended can be completed, nothing is left.

The suite runs the same histories each time; S4W_UPLOADS=5000 runs so many new ones.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from s4weights.proxy.objects import checks, fetch, occupants, open_upload, stored_writer
from s4weights.proxy.objects import upload as uploading
from s4weights.proxy.objects.codec_pool import MAX_FRAMES_AHEAD
from s4weights.proxy.upstream.directory import multipart
from s4weights.proxy.upstream.protocol import Conditions

from .upload_world import CUT, NUMBERS, OTHERS, SMALL, SMALLEST, Setup, World

sends = st.tuples(st.just("send"), st.sampled_from(NUMBERS), st.sampled_from([0, 0, 0, 1, 2, SMALL]))
conditions = st.sampled_from([None, None, Conditions(if_none_match="*"), Conditions(if_match='"0"')])
completes = st.tuples(
    st.just("complete"), st.just(set()) | st.sets(st.sampled_from(NUMBERS)), st.integers(0, 3), conditions
)
faults = st.just([]) | st.lists(
    st.sampled_from(["", "", "", "unreachable", "unreachable", "unanswered", "refused"]), max_size=12
)
gone_after = st.none() | st.none() | st.integers(0, 60)
steps = st.one_of(
    st.tuples(st.just("calls"), st.lists(sends | completes, min_size=1, max_size=1), faults, gone_after),
    st.tuples(st.just("calls"), st.lists(sends | completes, min_size=2, max_size=4), faults, gone_after),
    st.tuples(st.just("parts"), st.sampled_from(NUMBERS), st.sampled_from([0, 0, 1]), faults),
    st.tuples(st.just("parts"), st.just(1), st.sampled_from([0, 0, 1, 2]), faults),
    st.tuples(st.sampled_from(["abort", "expire"]), faults),
    st.tuples(st.sampled_from(["finish", "finish", "relieve", "delete"])),
    st.tuples(st.just("overwrite"), st.sampled_from(sorted(OTHERS))),
)
histories = st.lists(steps, max_size=16)
setups = st.builds(
    Setup,
    settle_bytes=st.sampled_from([0, 2 * CUT, 1 << 30]),
    part_bytes=st.sampled_from([3_000, 20_000, 1 << 20]),
    memory_bytes=st.sampled_from([2, 1 << 30]),
    frames_ahead=st.sampled_from([1, MAX_FRAMES_AHEAD]),
)


async def play(home: Path, setup: Setup, history: list[tuple[Any, ...]]) -> None:
    world = World(home, setup)
    await world.start()
    for step in history:
        await asyncio.wait_for(world.act(*step), 20)
    await asyncio.wait_for(world.close(), 20)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_any_history_of_an_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MIN_PART_BYTES", SMALLEST)
    monkeypatch.setattr(multipart, "_MIN_PART_BYTES", 0)
    monkeypatch.setattr(occupants, "MIN_BASE_BYTES", 1_024)
    monkeypatch.setattr(open_upload, "_COMPLETE_PAUSE_S", 0)
    monkeypatch.setattr(fetch, "_PAUSE_S", 0)
    monkeypatch.setattr(stored_writer, "PART_GROWTH", ((1, 1), (3, 4), (5, 16)))
    count = int(os.environ.get("S4W_UPLOADS", "0"))

    @settings(
        max_examples=count or 60,
        deadline=None,
        derandomize=not count,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(setups, histories)
    def histories_of_uploads(setup: Setup, history: list[tuple[Any, ...]]) -> None:
        monkeypatch.setattr(uploading, "SETTLE_BYTES", setup.settle_bytes)
        home = tmp_path / uuid.uuid4().hex
        try:
            asyncio.run(play(home, setup, history))
        finally:
            shutil.rmtree(home)

    histories_of_uploads()
