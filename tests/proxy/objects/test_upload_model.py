"""Any history of a multipart upload that hypothesis thinks of, beside plain bytes: an acknowledged Complete shows just the
bytes that its ETags name, nothing else ever shows, an upload that no rule of S3 has ended can be completed, nothing is left.

The suite runs the same histories each time; S4W_UPLOADS=5000 runs so many new ones.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import shutil
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects import checks, fetch, occupants, open_upload, stored_writer
from s4weights.proxy.objects import upload as uploading
from s4weights.proxy.objects.codec_pool import MAX_FRAMES_AHEAD
from s4weights.proxy.objects.leftovers import abort_left_open
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream, multipart
from s4weights.proxy.upstream.protocol import Conditions, Part

from .conftest import BUCKET, assert_nothing_left, body
from .one_thread import OneThread, Wire
from .upload_pieces import BASE, CUT, NONE, NUMBERS, PIECES, SMALL, SMALLEST, VARIANTS, Chosen, joined, named

KEY: Final = "run/checkpoint-2/model"
EARLIER: Final = "run/checkpoint-1/model"


@dataclass
class Open:
    """What a client knows of one upload. held: the variants that each part may have by now; NONE: perhaps it is not there."""

    upload_id: str
    held: dict[int, set[int]] = field(default_factory=dict)
    tried: list[Chosen] = field(default_factory=list)
    may_be_over: bool = False
    was_asked_to_end: bool = False
    completing: int = 0
    done: Chosen | None = None
    may_be_broken: bool = False
    """By a refusal of the bucket, or a full disk."""


sends = st.tuples(st.just("send"), st.sampled_from(NUMBERS), st.sampled_from([0, 0, 0, 1, 2, SMALL]))
conditions = st.sampled_from([None, None, Conditions(if_none_match="*"), Conditions(if_match='"0"')])
completes = st.tuples(
    st.just("complete"), st.sets(st.sampled_from(NUMBERS)) | st.just(set()), st.integers(0, 3), conditions
)
faults = st.just([]) | st.lists(
    st.sampled_from(["", "", "", "unreachable", "unreachable", "unanswered", "refused"]), max_size=12
)


class Uploading(RuleBasedStateMachine):
    """One client, one key, one upload after the other."""

    folder: Path
    patch: pytest.MonkeyPatch
    count = 0

    @initialize(
        settle_bytes=st.sampled_from([0, 2 * CUT, 1 << 30]),
        part_bytes=st.sampled_from([3_000, 20_000, 1 << 20]),
        memory_bytes=st.sampled_from([2, 1 << 30]),
        frames_ahead=st.sampled_from([1, MAX_FRAMES_AHEAD]),
        seed=st.integers(0, 99),
    )
    def begin(self, settle_bytes: int, part_bytes: int, memory_bytes: int, frames_ahead: int, seed: int) -> None:
        Uploading.count += 1
        self.home = self.folder / str(Uploading.count)
        self.runner = asyncio.Runner(loop_factory=lambda: OneThread(seed))
        self.patch.setattr(uploading, "SETTLE_BYTES", settle_bytes)
        self.settle_bytes = settle_bytes
        self.possible: set[bytes | None] = {None}
        self.open: Open | None = None
        self.run(self._begin(part_bytes, memory_bytes, frames_ahead))

    async def _begin(self, part_bytes: int, memory_bytes: int, frames_ahead: int) -> None:
        (self.home / "buckets").mkdir(parents=True)
        self.bucket = DirectoryUpstream(self.home / "buckets")
        await self.bucket.start()
        await self.bucket.create_bucket(BUCKET)
        self.wire = Wire(self.bucket)
        small = Settings(upstream="d", state_dir=self.home / "state", memory_bytes=memory_bytes)
        object.__setattr__(small, "part_bytes", part_bytes)  # S3 itself allows none so small
        self.objects = Objects(self.wire, small, Metrics())  # type: ignore[arg-type]
        await self.objects.start()
        self.is_full = False
        self.new_spill_file = self.objects.store.journal.new_spill_file
        self.objects.store.journal.new_spill_file = self.spill_file  # type: ignore[method-assign]
        self.objects.store.pool.frames_ahead = frames_ahead
        await self.objects.put(BUCKET, EARLIER, body(BASE), len(BASE), {})

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(asyncio.wait_for(work, 5))

    async def at_once(self, calls: Sequence[Coroutine[Any, Any, None]], gone_after: int | None = None) -> None:
        """gone_after: so many steps of the loop later the client of the first call goes away."""
        before = asyncio.all_tasks()
        tasks = [asyncio.ensure_future(call) for call in calls]
        if gone_after is not None:
            for _ in range(gone_after):
                await asyncio.sleep(0)
            tasks[0].cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
                raise error
        while left := asyncio.all_tasks() - before:
            await asyncio.wait(left)

    async def opened(self) -> Open:
        if self.open is None:
            faults, self.wire.faults = self.wire.faults, []
            self.open = Open(await self.objects.uploads.create(BUCKET, KEY, {}))
            self.wire.faults = faults
        return self.open

    async def send(self, open_: Open, number: int, variant: int, *, alone: bool = True) -> None:
        data = PIECES[number, variant]
        held = open_.held.setdefault(number, {NONE})
        came = len(self.wire.struck)
        try:
            part = await self.objects.uploads.put_part(
                BUCKET, KEY, open_.upload_id, number, body(data, 7_000), len(data)
            )
        except (UpstreamError, OSError) as error:
            assert self.wire.struck if isinstance(error, UpstreamError) else open_.may_be_broken
            held.add(variant)
        except S3Error as error:
            if error.code == "InvalidRequest" and "encoded already" in str(error):
                assert self.settle_bytes < 1 << 30 or open_.was_asked_to_end
                held.discard(variant)
                assert held
                return
            held.add(variant)
            self.allows(open_, error, came)
        except asyncio.CancelledError:
            held.add(variant)
            raise
        else:
            assert part.etag == hashlib.md5(data).hexdigest()
            if alone:
                held.clear()
            held.add(variant)

    def allows(self, open_: Open, error: S3Error, came: int) -> None:
        """An error that the bucket, or the end of the upload, explains. came: faults before the call."""
        refused = {name for name, fault in self.wire.struck if fault == "refused"}
        if error.code == "NoSuchUpload":
            assert open_.may_be_over or open_.completing
        elif error.code in ("AccessDenied", "InternalError"):
            assert refused or open_.may_be_broken, error
            open_.may_be_broken = True
        elif error.code == "ServiceUnavailable":
            assert len(self.wire.struck) > came, error
        else:
            raise error

    async def complete(self, open_: Open, chosen: Chosen, asked: Conditions | None = None) -> bool:
        listed = [Part(number, hashlib.md5(PIECES[number, variant]).hexdigest()) for number, variant in chosen]
        data = joined(chosen)
        came = len(self.wire.struck)
        open_.was_asked_to_end = True
        open_.completing += 1
        try:
            stored = await self.objects.complete(BUCKET, KEY, open_.upload_id, listed, asked)
        except (UpstreamError, OSError) as error:
            assert self.wire.struck if isinstance(error, UpstreamError) else open_.may_be_broken
            open_.tried.append(chosen)
            open_.may_be_over = True
            self.possible.add(data)
        except S3Error as error:
            self.allows_refusal(open_, chosen, asked, error, came)
        except asyncio.CancelledError:
            open_.tried.append(chosen)
            open_.may_be_over = True
            self.possible.add(data)
            raise
        else:
            md5s = b"".join(hashlib.md5(PIECES[one]).digest() for one in chosen)
            assert stored.etag == f"{hashlib.md5(md5s).hexdigest()}-{len(chosen)}"
            assert open_.done in (None, chosen)
            if open_.done is None:
                # One that was not answered may have done it, and others may have written since.
                self.possible = self.possible | {data} if open_.may_be_over else {data}
            open_.done, open_.may_be_over = chosen, True
            return True
        finally:
            open_.completing -= 1
        return False

    def allows_refusal(self, open_: Open, chosen: Chosen, asked: Conditions | None, error: S3Error, came: int) -> None:
        struck = self.wire.struck[came:]
        if any(fault == "unanswered" for _, fault in struck):
            self.possible.add(joined(chosen))
            open_.may_be_over = True
        if error.code == "InvalidPart":
            known = all(variant in open_.held.get(number, ()) for number, variant in chosen)
            sure = known and all(len(open_.held[number]) == 1 for number, _ in chosen)
            assert not sure or "encoded already" in str(error) or "other parts" in str(error), error
        elif error.code == "EntityTooSmall":
            assert any(variant == SMALL for _, variant in chosen[:-1]), error
        elif error.code == "MalformedXML":
            assert not chosen
        elif error.code in ("PreconditionFailed", "NoSuchKey"):
            assert asked is not None, error
            open_.tried.append(chosen)
        else:
            open_.tried.append(chosen)
            self.allows(open_, error, came)

    @rule(
        call=sends | completes,
        strikes=faults,
        gone_after=st.none() | st.none() | st.integers(0, 60),
    )
    def one(self, call: tuple[Any, ...], strikes: list[str], gone_after: int | None) -> None:
        self.run(self._several([call], strikes, gone_after))

    @rule(
        calls=st.lists(sends | completes, min_size=2, max_size=4),
        strikes=faults,
        gone_after=st.none() | st.integers(0, 60),
        is_full=st.sampled_from([False, False, False, False, True]),
    )
    def several(self, calls: list[tuple[Any, ...]], strikes: list[str], gone_after: int | None, is_full: bool) -> None:
        self.is_full = is_full
        self.run(self._several(calls, strikes, gone_after))
        self.is_full = False

    def spill_file(self) -> Path:
        """On a disk that may be full."""
        if self.is_full:
            if self.open is not None:
                self.open.may_be_broken = True
            raise OSError("no space left")
        return self.new_spill_file()

    @rule(first=st.sampled_from(NUMBERS), variant=st.sampled_from([0, 0, 1]), strikes=faults)
    def the_rest(self, first: int, variant: int, strikes: list[str]) -> None:
        """Parts in order to the last one, as most clients send them."""
        self.run(self._several([("send", number, variant) for number in NUMBERS if number >= first], strikes, None))

    async def _several(self, calls: list[tuple[Any, ...]], strikes: list[str], gone_after: int | None) -> None:
        open_ = await self.opened()
        self.wire.faults = list(strikes)
        numbers = [call[1] for call in calls if call[0] == "send"]
        work: list[Coroutine[Any, Any, Any]] = []
        for call in calls:
            if call[0] == "send":
                _, number, variant = call
                work.append(self.send(open_, number, variant, alone=numbers.count(number) == 1))
            else:
                _, left_out, turn, asked = call
                work.append(self.complete(open_, self.choose(open_, left_out, turn), asked))
        await self.at_once(work, gone_after)
        self.wire.faults = []

    @staticmethod
    def choose(open_: Open, left_out: set[int], turn: int) -> Chosen:
        """Parts that are there, but for some; of those that may be one or another, one by turn."""
        held = {number: sorted(variants - {NONE}) for number, variants in open_.held.items() if variants != {NONE}}
        return tuple(
            (number, held[number][turn % len(held[number])]) for number in sorted(held) if number not in left_out
        )

    @rule(strikes=faults)
    def abort(self, strikes: list[str]) -> None:
        self.end(lambda open_: self.objects.uploads.abort(BUCKET, KEY, open_.upload_id), strikes)

    @rule(strikes=faults)
    def expire(self, strikes: list[str]) -> None:
        self.end(lambda open_: self.objects.uploads._end_idle(open_.upload_id, math.inf), strikes)

    def end(self, how: Callable[[Open], Coroutine[Any, Any, None]], strikes: list[str]) -> None:
        if self.open is None or self.open.may_be_over:
            return
        self.wire.faults = list(strikes)
        self.run(how(self.open))
        self.wire.faults = []
        self.open = None

    @rule()
    def relieve(self) -> None:
        self.run(self.objects.uploads.relieve())

    @rule(which=st.integers(0, 2))
    def overwrite(self, which: int) -> None:
        """Another client."""
        data = (b"some text", BASE, VARIANTS[1])[which]
        self.run(self.objects.put(BUCKET, KEY, body(data), len(data), {}))
        self.possible = {data}

    @rule()
    def delete(self) -> None:
        self.run(self.objects.delete(BUCKET, KEY))
        self.possible = {None}

    @rule()
    def finish(self) -> None:
        """With the bucket in reach an upload comes to its end, unless a refusal has broken it."""
        if self.open is not None:
            self.run(self._finish(self.open))
            self.open = None

    async def _finish(self, open_: Open) -> None:
        is_over, is_broken = open_.may_be_over, open_.may_be_broken
        for number, variants in open_.held.items():
            for variant in sorted(variants):
                if len(variants) > 1 and variant != NONE and not is_over:
                    await self.send(open_, number, variant)
        whole = self.choose(open_, set(), 0)
        for chosen in [whole, *open_.tried]:
            if chosen and await self.complete(open_, chosen):
                return
        is_short = any(SMALL in variants for variants in open_.held.values())
        assert is_over or is_broken or is_short or not whole, f"{whole} cannot be completed, nor {open_.tried}"
        if not is_over or open_.upload_id in self.objects.uploads._open:
            await self.objects.uploads.abort(BUCKET, KEY, open_.upload_id)

    @invariant()
    def shows_what_was_acknowledged(self) -> None:
        if hasattr(self, "objects"):
            found = self.run(self._read())
            assert found in self.possible, f"shown: {named(found)}, expected: {[*map(named, self.possible)]}"
            self.possible = {found}

    async def _read(self) -> bytes | None:
        try:
            found = await self.objects.resolve(BUCKET, KEY)
        except S3Error as error:
            assert error.code == "NoSuchKey"
            return None
        return b"".join([chunk async for chunk in self.objects.read(found, 0, found.info.size)])

    def teardown(self) -> None:
        if hasattr(self, "objects"):
            try:
                self.run(self._teardown())
            finally:
                self.runner.close()
                shutil.rmtree(self.home)

    async def _teardown(self) -> None:
        await self.objects.close()
        await abort_left_open(self.bucket, self.objects.store.journal)
        asked = {left.key for left in self.objects.store.journal.left_asked()}
        for upload in await self.bucket.list_uploads(BUCKET):
            assert upload.key in asked  # begun and never answered: leftovers.py ends it when it is old
            await self.bucket.abort_upload(BUCKET, upload.key, upload.upload_id)
        await assert_nothing_left(self.objects, self.bucket)
        await self.bucket.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_any_history_of_an_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MIN_PART_BYTES", SMALLEST)
    monkeypatch.setattr(multipart, "_MIN_PART_BYTES", 0)
    monkeypatch.setattr(occupants, "MIN_BASE_BYTES", 1_024)
    monkeypatch.setattr(open_upload, "_COMPLETE_PAUSE_S", 0)
    monkeypatch.setattr(fetch, "_PAUSE_S", 0)
    monkeypatch.setattr(stored_writer, "PART_GROWTH", ((1, 1), (3, 4), (5, 16)))
    Uploading.folder = tmp_path
    Uploading.patch = monkeypatch
    count = int(os.environ.get("S4W_UPLOADS", "0"))
    run_state_machine_as_test(
        Uploading,
        settings=settings(
            max_examples=count or 60,
            stateful_step_count=20,
            deadline=None,
            derandomize=not count,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
