"""One client's multipart uploads beside plain bytes: what may show at its key, and what each call may answer."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.leftovers import abort_left_open
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import Conditions, Part

from .conftest import BUCKET, assert_nothing_left, body
from .test_deltas import file_of, rounded

KEY: Final = "run/checkpoint-2/model"
EARLIER: Final = "run/checkpoint-1/model"
ELEMENTS: Final = 5_000
CUT: Final = 23_456
SMALLEST: Final = 2_000
SMALL: Final = 3
"""This variant of a part is shorter than the bucket allows of any but the last."""
NONE: Final = -1

_random = np.random.default_rng(7)


def _checkpoint(moved: float) -> bytes:
    tensors = {}
    for number in range(4):
        weights = np.random.default_rng(number).normal(0, 0.02, ELEMENTS) + moved
        tensors[f"w{number}"] = ("BF16", rounded(weights))
        tensors[f"m{number}"] = ("F32", weights.astype("<f4").tobytes())
    return file_of(tensors)


BASE: Final = _checkpoint(0)
_VARIANTS: Final = [_checkpoint(1e-5), _checkpoint(2e-5), _random.bytes(len(BASE))]
NUMBERS: Final = range(1, -(-len(BASE) // CUT) + 1)
PIECES: Final = {
    (number, variant): data[(number - 1) * CUT : number * CUT]
    for number in NUMBERS
    for variant, data in enumerate(_VARIANTS)
} | {(number, SMALL): bytes([number]) * (SMALLEST - number) for number in NUMBERS}

Chosen = tuple[tuple[int, int], ...]
"""Of a Complete: (number, variant) of each part."""


def joined(chosen: Chosen) -> bytes:
    return b"".join(PIECES[one] for one in chosen)


class Wire:
    """The way to a directory, with the faults that are to come: each call of the bucket takes the next one."""

    def __init__(self, bucket: DirectoryUpstream) -> None:
        self._bucket = bucket
        self.faults: list[str] = []
        self.struck: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._bucket, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        async def call(*arguments: Any, **options: Any) -> Any:
            fault = self.faults.pop(0) if self.faults else ""
            if fault:
                self.struck.append((name, fault))
            if fault == "refused":
                raise S3Error("AccessDenied")
            if fault == "unreachable":
                raise UpstreamError("no answer")
            answer = await method(*arguments, **options)
            if fault == "unanswered":
                raise UpstreamError("no answer")
            return answer

        return call


@dataclass
class Open:
    """What a client knows of one upload. held: the variants that each part may have by now; NONE: perhaps it is not there."""

    upload_id: str
    held: dict[int, set[int]] = field(default_factory=dict)
    tried: list[Chosen] = field(default_factory=list)
    acknowledged: Chosen | None = None
    may_be_over: bool = False
    is_closing: bool = False
    """A Complete is under way beside other calls."""
    may_be_broken: bool = False
    """By a refusal of the bucket, or a full disk."""


OTHERS: Final = {"text": b"some text", "base": BASE, "variant": _VARIANTS[1]}


@dataclass(frozen=True)
class Setup:
    settle_bytes: int
    part_bytes: int
    memory_bytes: int
    frames_ahead: int


class World:
    """One client, one key, one upload after the other."""

    def __init__(self, home: Path, setup: Setup) -> None:
        self.home = home
        self.setup = setup
        self.possible: set[bytes | None] = {None}
        self.open: Open | None = None

    async def start(self) -> None:
        (self.home / "buckets").mkdir(parents=True)
        self.bucket = DirectoryUpstream(self.home / "buckets")
        await self.bucket.start()
        await self.bucket.create_bucket(BUCKET)
        self.wire = Wire(self.bucket)
        small = Settings(upstream="d", state_dir=self.home / "state", memory_bytes=self.setup.memory_bytes)
        object.__setattr__(small, "part_bytes", self.setup.part_bytes)  # S3 itself allows none so small
        self.objects = Objects(self.wire, small, Metrics())  # type: ignore[arg-type]
        await self.objects.start()
        self.objects.store.pool.frames_ahead = self.setup.frames_ahead
        await self.objects.put(BUCKET, EARLIER, body(BASE), len(BASE), {})

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
        except UpstreamError:
            assert self.wire.struck
            held.add(variant)
        except S3Error as error:
            if error.code == "InvalidRequest" and "encoded already" in str(error):
                assert self.setup.settle_bytes < 1 << 30 or open_.tried
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
        if refused & {"create_upload", "put_part"}:
            open_.may_be_broken = True
        if error.code == "NoSuchUpload":
            assert open_.may_be_over or open_.is_closing
        elif error.code in ("AccessDenied", "InternalError"):
            assert refused, error
            assert error.code == "AccessDenied" or open_.may_be_broken, error
        elif error.code == "ServiceUnavailable":
            assert len(self.wire.struck) > came, error
        else:
            raise error

    async def complete(self, open_: Open, chosen: Chosen, asked: Conditions | None = None) -> bool:
        listed = [Part(number, hashlib.md5(PIECES[number, variant]).hexdigest()) for number, variant in chosen]
        data = joined(chosen)
        came, was_in_doubt = len(self.wire.struck), open_.may_be_over
        try:
            stored = await self.objects.complete(BUCKET, KEY, open_.upload_id, listed, asked)
        except UpstreamError:
            assert self.wire.struck
            open_.tried.append(chosen)
            self.in_doubt(open_, data, came)
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
            # One that was carried out before is told again, whatever came since.
            self.possible = {data} | (self.possible if was_in_doubt or open_.acknowledged else set())
            assert open_.acknowledged in (None, chosen)
            open_.acknowledged = chosen
            open_.may_be_over = True
            return True
        return False

    def allows_refusal(self, open_: Open, chosen: Chosen, asked: Conditions | None, error: S3Error, came: int) -> None:
        self.in_doubt(open_, joined(chosen), came)
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

    def in_doubt(self, open_: Open, data: bytes, came: int) -> None:
        if {("complete_upload", "unanswered"), ("put", "unanswered")} & set(self.wire.struck[came:]):
            self.possible.add(data)
            open_.may_be_over = True

    async def act(self, name: str, *how: Any) -> None:
        if name == "parts":
            first, variant, strikes = how
            calls = [("send", number, variant) for number in NUMBERS if number >= first]
            await self.calls(calls, strikes, None)
        else:
            await getattr(self, name)(*how)
        found = await self.read()
        assert found in self.possible
        self.possible = {found}

    async def calls(self, calls: list[tuple[Any, ...]], strikes: list[str], gone_after: int | None) -> None:
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
        open_.is_closing = any(call[0] == "complete" for call in calls)
        await self.at_once(work, gone_after)
        open_.is_closing = False
        self.wire.faults = []

    @staticmethod
    def choose(open_: Open, left_out: set[int], turn: int) -> Chosen:
        """Parts that are there, but for some; of those that may be one or another, one by turn."""
        held = {number: sorted(variants - {NONE}) for number, variants in open_.held.items() if variants != {NONE}}
        return tuple(
            (number, held[number][turn % len(held[number])]) for number in sorted(held) if number not in left_out
        )

    async def abort(self, strikes: list[str]) -> None:
        await self.end(lambda open_: self.objects.uploads.abort(BUCKET, KEY, open_.upload_id), strikes)

    async def expire(self, strikes: list[str]) -> None:
        await self.end(lambda open_: self.objects.uploads._end_idle(open_.upload_id, math.inf), strikes)

    async def end(self, how: Callable[[Open], Coroutine[Any, Any, None]], strikes: list[str]) -> None:
        if self.open is None or self.open.may_be_over:
            return
        self.wire.faults = list(strikes)
        await how(self.open)
        self.wire.faults = []
        self.open = None

    async def relieve(self) -> None:
        await self.objects.uploads.relieve()

    async def overwrite(self, name: str) -> None:
        """Another client."""
        data = OTHERS[name]
        await self.objects.put(BUCKET, KEY, body(data), len(data), {})
        self.possible = {data}

    async def delete(self) -> None:
        await self.objects.delete(BUCKET, KEY)
        self.possible = {None}

    async def finish(self) -> None:
        """With the bucket in reach an upload comes to its end, unless a refusal has broken it."""
        if self.open is not None:
            await self._finish(self.open)
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

    async def read(self) -> bytes | None:
        try:
            found = await self.objects.resolve(BUCKET, KEY)
        except S3Error as error:
            assert error.code == "NoSuchKey"
            return None
        return b"".join([chunk async for chunk in self.objects.read(found, 0, found.info.size)])

    async def close(self) -> None:
        await self.objects.close()
        await abort_left_open(self.bucket, self.objects.store.journal)
        asked = {left.key for left in self.objects.store.journal.left_asked()}
        for upload in await self.bucket.list_uploads(BUCKET):
            assert upload.key in asked  # begun and never answered: leftovers.py ends it when it is old
            await self.bucket.abort_upload(BUCKET, upload.key, upload.upload_id)
        await assert_nothing_left(self.objects, self.bucket)
        await self.bucket.close()
