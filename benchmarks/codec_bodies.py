"""Bodies that do not shrink, threads, and whole files: what the components' tables do not show."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import zstandard
from codec_targets import BALANCED, MEMCPY, ZIPNN, Pair, Table, Target
from train_gpt import source_text

from s4weights.codec.container import FRAME_HEADER_BYTES
from s4weights.codec.decode import decode_frame
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import Engine
from s4weights.codec.limits import FRAME_BYTES
from s4weights.codec.types import ElementType, Frame, Level
from s4weights.measure.candidate import COPY, ENCODE, VERIFIED
from s4weights.measure.ours import OURS as OUR_NAME
from s4weights.measure.peers import PEERS
from s4weights.measure.rounds import measure

# Names of those that a codec cannot shrink.
RANDOM = "random bytes"
COMPRESSED = "a file that zstd has compressed"
NOISE_F32 = "random bytes as fp32"
NOISE_BF16 = "random bytes as bf16"
INCOMPRESSIBLE = (RANDOM, COMPRESSED, NOISE_F32, NOISE_BF16)


def make_bodies(size: int, model: Path) -> dict[str, tuple[ElementType, bytes]]:
    """model: a file to compress."""
    noise = os.urandom(size)
    text = source_text(min(size, 4 << 20)).numpy().astype(np.uint8).tobytes()
    with model.open("rb") as file:
        compressed = zstandard.ZstdCompressor(level=1).compress(file.read(2 * size))[:size]
    return {
        RANDOM: (ElementType.BYTES, noise),
        COMPRESSED: (ElementType.BYTES, compressed),
        NOISE_F32: (ElementType.F32, noise),
        NOISE_BF16: (ElementType.BF16, noise),
        "zeros": (ElementType.BYTES, bytes(size)),
        "zeros as fp32": (ElementType.F32, bytes(size)),
        "source text": (ElementType.BYTES, text),
    }


def cut(data: bytes, element: ElementType) -> list[Frame]:
    return [Frame(at, element, data[at : at + FRAME_BYTES]) for at in range(0, len(data), FRAME_BYTES)]


def measure_bodies(bodies: Mapping[str, tuple[ElementType, bytes]], engine: Engine, runs: int, limit_s: float) -> Table:
    """Ours and memcpy on each. limit_s: see measure."""
    return {
        name: {
            one.candidate: one
            for one in measure(
                name,
                element,
                cut(data, element),
                engine,
                runs,
                peers=(),
                detailed=True,
                limit_s=limit_s,
                block_bytes=FRAME_BYTES,
            )
        }
        for name, (element, data) in bodies.items()
    }


def above_raw(bodies: Mapping[str, tuple[ElementType, bytes]], engine: Engine) -> int:
    """The most bytes that any frame of any body takes more than its own, at any level."""
    return max(
        encode_frame(frame, engine, level).stored_bytes - len(frame.data)
        for element, data in bodies.values()
        for frame in cut(data, element)
        for level in Level
    )


def body_targets(found: Table, most_above_raw: int) -> Iterator[Target]:
    yield Target("bytes above raw, any frame, any level", FRAME_HEADER_BYTES, most_above_raw, is_most=True)
    for name in INCOMPRESSIBLE:
        pair = Pair(name, found[name])
        for step, how in ((ENCODE, "engine"), (VERIFIED, "with comparison and hashes")):
            yield pair.target(f"`balanced` encode, {how}, by memcpy", 0.7, (BALANCED, step), (MEMCPY, COPY))


@dataclass(frozen=True)
class Threads:
    """Seconds of one and of two threads, round by round, in pairs. is_ours: else it tells what the machine gives."""

    name: str
    logical_bytes: int
    one: list[float]
    two: list[float]
    is_ours: bool = True

    @property
    def gain(self) -> float:
        """Median of the pairs' quotients."""
        return median(a / b for a, b in zip(self.one, self.two, strict=True))

    @property
    def least_gain(self) -> float:
        """One thread's fastest round by two threads' fastest."""
        return min(self.one) / min(self.two)

    def target(self) -> Target:
        return Target(f"two threads by one, {self.name}", 1.8, self.gain, self.least_gain)


def measure_threads(name: str, frames: Sequence[Frame], engine: Engine, runs: int) -> Iterator[Threads]:
    """Whole frames, `balanced`, encoded with comparison and hashes, and decoded with hashes; beside them what two threads gain
    here at all: SHA-256, which needs nothing but a core, and copying.

    A thread takes frame after frame and drops what it has made, as one whose frames go out to a socket: memory that is
    touched for the first time and the pool's own time for a task would be measured with the codec otherwise.
    """
    stored = [b"".join((one.header, one.payload)) for one in (encode_frame(frame, engine) for frame in frames)]
    bodies = [np.frombuffer(frame.data, np.uint8) for frame in frames]
    kinds: tuple[tuple[str, Callable[[Any], object], Sequence[object]], ...] = (
        ("encode", lambda frame: encode_frame(frame, engine), frames),
        ("decode", lambda frame: decode_frame(frame, engine), stored),
        ("SHA-256 of the same", hashlib.sha256, bodies),
        ("memcpy of the same", lambda pair: np.copyto(*pair), [(np.empty_like(body), body) for body in bodies]),
    )
    logical = sum(len(frame.data) for frame in frames)
    timed: dict[str, list[tuple[float, float]]] = {step: [] for step, _, _ in kinds}
    with ThreadPoolExecutor(2) as pool:
        for turn in range(runs + 1):
            for step, work, units in kinds:
                one, two = (_seconds(pool, threads, work, units) for threads in (1, 2))
                if turn:
                    timed[step].append((one, two))
    for step, pairs in timed.items():
        alone, together = ([pair[k] for pair in pairs] for k in (0, 1))
        yield Threads(f"{name} {step}", logical, alone, together, is_ours=step in ("encode", "decode"))


def _seconds(pool: ThreadPoolExecutor, threads: int, work: Callable[[Any], object], units: Sequence[object]) -> float:
    """How long so many threads take together."""
    left = iter(units)

    def take() -> None:
        for unit in left:
            work(unit)

    started = time.perf_counter()
    for done in [pool.submit(take) for _ in range(threads)]:
        done.result()
    return time.perf_counter() - started


def pack(body: bytes, engine: Engine, level: Level = Level.BALANCED) -> tuple[bytes, Encoder, list[Frame]]:
    """The container of a body, one thread."""
    encoder = Encoder()
    frames = encoder.plan(body) + encoder.plan_end()
    out = [encoder.start()]
    for frame in frames:
        out += encoder.add(encode_frame(frame, engine, level))
    return b"".join([*out, encoder.finish()]), encoder, frames


def types_apart(frames: Sequence[Frame]) -> tuple[dict[ElementType, list[Frame]], int]:
    """Frames by their type, and the bytes of those without one."""
    by_type: dict[ElementType, list[Frame]] = {}
    for frame in frames:
        by_type.setdefault(frame.element, []).append(frame)
    untyped = sum(len(frame.data) for frame in by_type.pop(ElementType.BYTES, []))
    return by_type, untyped


def whole_sizes(body: bytes, engine: Engine, peers: Collection[str] = PEERS) -> dict[str, int]:
    """Stored bytes of a whole file by candidate: our containers; peers get what has a type, each type by itself and told
    which, and keep the rest as it is. zipnn also as its own users call it on a file: as one array of fp32."""
    sizes: dict[str, int] = {}
    frames: list[Frame] = []
    for level in Level:
        container, _, frames = pack(body, engine, level)
        sizes[f"{OUR_NAME} {level.value}"] = len(container)
    by_type, untyped = types_apart(frames)
    found: dict[str, list[int]] = {}
    for element, some in by_type.items():
        for one in measure("", element, some, engine, 0, levels=(), peers=peers):
            if one.failure is None and one.candidate != MEMCPY:
                found.setdefault(one.candidate, []).append(one.stored_bytes)
    sizes |= {name: untyped + sum(some) for name, some in found.items() if len(some) == len(by_type)}
    words = cut(body[: len(body) & -4], ElementType.F32)
    for one in measure("", ElementType.F32, words, engine, 0, levels=(), peers={ZIPNN} & set(peers)):
        if one.failure is None and one.candidate == ZIPNN:
            sizes[f"{ZIPNN}, one array of fp32"] = one.stored_bytes + len(body) % 4
    return sizes
