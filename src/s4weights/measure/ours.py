"""The one place that knows how the codec is called: what a piece takes when stored, and how fast that goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from s4weights.codec.container import HEADER_BYTES, INDEX_HEADER_BYTES, TRAILER_BYTES
from s4weights.codec.decode import decode_frame
from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import EncodedPayload, Engine, NativeEngine
from s4weights.codec.frames import FrameCutter
from s4weights.codec.types import Frame, Layout, Level, Segment

from .candidate import DECODE, ENCODE, ENGINE_DECODE, ENGINE_VERIFIED, VERIFIED, Maker, Step, timed_each

OURS: Final = "s4weights"
# Frames as a GPU writes them, whose balanced level has rANS in place of Huffman.
GPU_LIKE: Final = f"{OURS} rANS"
# All that the codec has.
LEVELS: Final = tuple(level.value for level in Level)


def frames_of(data: bytes, segments: Sequence[Segment]) -> list[Frame]:
    """The frames of a stretch of a body. segments cover it in order; byte 0 is the stretch's first."""
    cutter = FrameCutter()
    cutter.extend(segments)
    return cutter.feed(data) + cutter.finish()


def stored_size(data: bytes, segments: Sequence[Segment], engine: Engine, level: Level = Level.BALANCED) -> int:
    """Bytes that a stretch of a body takes in a container, frame headers included; really encoded and verified."""
    return sum(encode_frame(frame, engine, level).stored_bytes for frame in frames_of(data, segments))


def container_overhead(frames: int, segments: int) -> int:
    """About what header, index and trailer take: 8 bytes a frame, of which zstd keeps some 5, and 20 a tensor's row."""
    return HEADER_BYTES + INDEX_HEADER_BYTES + TRAILER_BYTES + 100 + 5 * frames + 20 * segments


def codec_candidates(
    frames: Sequence[Frame], engine: Engine, levels: Sequence[str], *, detailed: bool = False
) -> Iterator[tuple[str, Maker]]:
    """Our codec on these frames: a name and a maker for each level. detailed: the engine is measured by itself too."""
    for level in levels:
        yield f"{OURS} {level}", partial(_Codec, frames, engine, Level(level), detailed)
    if detailed:
        yield GPU_LIKE, partial(_Codec, frames, NativeEngine(huffman=False), Level.BALANCED, True)


class _Codec:
    """One level of one engine."""

    def __init__(self, frames: Sequence[Frame], engine: Engine, level: Level, is_detailed: bool) -> None:
        self._frames = frames
        self._is_detailed = is_detailed
        self._engine = engine
        self._level = level
        self._stored = [self._encode_one(frame) for frame in frames]
        self._payloads = [(self._payload(frame), len(frame.data)) for frame in frames] if is_detailed else []

    def _encode_one(self, frame: Frame) -> bytes:
        encoded = encode_frame(frame, self._engine, self._level)
        return b"".join((encoded.header, encoded.payload))

    @property
    def steps(self) -> dict[str, Step]:
        """See Candidate."""
        steps: dict[str, Step] = {
            ENCODE: lambda: timed_each(lambda frame: len(self._payload(frame).payload), self._frames),
            VERIFIED: lambda: timed_each(lambda frame: encode_frame(frame, self._engine, self._level), self._frames),
            DECODE: lambda: timed_each(lambda stored: len(decode_frame(stored, self._engine)), self._stored),
        }
        if self._is_detailed:
            steps[ENGINE_VERIFIED] = lambda: timed_each(self._encode_and_compare, self._frames)
            steps[ENGINE_DECODE] = lambda: timed_each(self._decode_payload, self._payloads)
        return steps

    def stored_bytes(self) -> int:
        """See Candidate."""
        return sum(map(len, self._stored))

    def is_identical(self) -> bool:
        """See Candidate."""
        decoded = (decode_frame(stored, self._engine) for stored in self._stored)
        return all(body == frame.data for body, frame in zip(decoded, self._frames, strict=True))

    def close(self) -> None:
        """See Candidate."""

    def _payload(self, frame: Frame) -> EncodedPayload:
        return self._engine.encode(frame.data, frame.element, grid=frame.grid, level=self._level)

    def _encode_and_compare(self, frame: Frame) -> bool:
        coded = self._payload(frame)
        return coded.layout is Layout.RAW or self._engine.decodes_to(coded, frame.data)

    def _decode_payload(self, pair: tuple[EncodedPayload, int]) -> int:
        coded, logical_bytes = pair
        if coded.layout is Layout.RAW:
            return len(bytes(memoryview(coded.payload)))
        return len(
            self._engine.decode(
                coded.payload, coded.element, coded.predictor, coded.layout, coded.planes, logical_bytes
            )
        )
