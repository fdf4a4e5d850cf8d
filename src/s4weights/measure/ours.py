"""The one place that knows how the codec is called: what a piece takes when stored, and how fast that goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from s4weights.codec.container import HEADER_BYTES, INDEX_HEADER_BYTES, TRAILER_BYTES
from s4weights.codec.decode import decode_frame
from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import Engine
from s4weights.codec.frames import FrameCutter
from s4weights.codec.types import Frame, Segment

from .candidate import DECODE, ENCODE, VERIFIED, Maker, Step, timed

OURS: Final = "s4weights"
# All that the codec has.
LEVELS: Final = ("balanced",)


def frames_of(data: bytes, segments: Sequence[Segment]) -> list[Frame]:
    """The frames of a stretch of a body. segments cover it in order; byte 0 is the stretch's first."""
    cutter = FrameCutter()
    cutter.extend(segments)
    return cutter.feed(data) + cutter.finish()


def stored_size(data: bytes, segments: Sequence[Segment], engine: Engine) -> int:
    """Bytes that a stretch of a body takes in a container, frame headers included; really encoded and verified."""
    return sum(len(encode_frame(frame, engine).stored) for frame in frames_of(data, segments))


def container_overhead(frames: int, segments: int) -> int:
    """About what header, index and trailer take: 8 bytes a frame, of which zstd keeps some 5, and 20 a tensor's row."""
    return HEADER_BYTES + INDEX_HEADER_BYTES + TRAILER_BYTES + 100 + 5 * frames + 20 * segments


def codec_candidates(frames: Sequence[Frame], engine: Engine, levels: Sequence[str]) -> Iterator[tuple[str, Maker]]:
    """Our codec on these frames: a name and a maker for each level."""
    for level in levels:
        yield f"{OURS} {level}", partial(_Codec, frames, engine)


class _Codec:
    """One level of one engine."""

    def __init__(self, frames: Sequence[Frame], engine: Engine) -> None:
        self._frames = frames
        self._engine = engine
        self._stored: list[bytes] = [encode_frame(frame, engine).stored for frame in frames]

    @property
    def steps(self) -> dict[str, Step]:
        """See Candidate."""
        return {ENCODE: self._encode, VERIFIED: self._encode_verified, DECODE: self._decode}

    def stored_bytes(self) -> int:
        """See Candidate."""
        return sum(map(len, self._stored))

    def is_identical(self) -> bool:
        """See Candidate."""
        decoded = (decode_frame(stored, self._engine) for stored in self._stored)
        return all(body == frame.data for body, frame in zip(decoded, self._frames, strict=True))

    def close(self) -> None:
        """See Candidate."""

    def _encode(self) -> float:
        return timed(lambda: [len(self._engine.encode(one.data, one.element).payload) for one in self._frames])

    def _encode_verified(self) -> float:
        return timed(lambda: [len(encode_frame(frame, self._engine).stored) for frame in self._frames])

    def _decode(self) -> float:
        return timed(lambda: [len(decode_frame(stored, self._engine)) for stored in self._stored])
