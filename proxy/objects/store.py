"""What every operation on objects shares."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from s4weights.codec.types import Kind
from s4weights.proxy.checksums.plan import COMPOSITE, ChecksumPlan
from s4weights.proxy.config import Settings
from s4weights.proxy.limits import BASES_OF_A_FRAME_BYTES
from s4weights.proxy.memory import MemoryBudget
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.upstream.protocol import Headers, SentChecksum, Upstream

from .codec_pool import MAX_FRAMES_AHEAD, CodecPool
from .guard import Guard
from .journal import Journal
from .lineage import Lineage
from .marker import RAW, container_marker
from .stored_writer import StoredWriter, hold_bytes


class VerifiedBody(Protocol):
    """A client's body: its last chunk comes only after every length, hash and signature was right.

    gathered_bytes: of a chunk, about; may be set. md5 (16 bytes) and checksums (by header name) are there after the end.
    announced: the headers of those checksums, with the values that came before the body.
    """

    gathered_bytes: int
    md5: bytes
    checksums: Mapping[str, str]
    announced: Mapping[str, str | None]

    def __aiter__(self) -> AsyncIterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class Store:
    """writes: memory of bodies being encoded. reads: of bodies being read. parts: of client parts that wait. Apart, so that
    slow readers never keep a save waiting, nor waiting parts the stream that would consume them (ADR 0006).
    """

    upstream: Upstream
    settings: Settings
    metrics: Metrics
    pool: CodecPool
    guard: Guard
    lineage: Lineage
    journal: Journal
    writes: MemoryBudget
    reads: MemoryBudget
    parts: MemoryBudget

    @property
    def write_hold_bytes(self) -> int:
        """What one body being encoded holds at most: its writer, the probe's raw bytes, frames in the pool, their bases."""
        frames_ahead = max(self.pool.frames_ahead, MAX_FRAMES_AHEAD)
        bases_bytes = self.pool.frames_ahead * BASES_OF_A_FRAME_BYTES if self.settings.deltas else 0
        return hold_bytes(self.settings.part_bytes) + _PROBE_BYTES + frames_ahead * _FRAME_AHEAD_BYTES + bases_bytes

    def encodes(self, kind: Kind, headers: Headers) -> bool:
        """Whether a body of this kind goes through the codec; never one whose key (SSE-C) is the client's alone."""
        if self.settings.mode == "passthrough" or any(name.startswith(_CUSTOMER_KEY) for name in headers):
            return False
        return kind in _CHECKPOINTS or self.settings.encode_all

    def writer(self, target: tuple[str, str], headers: Headers, *, resumes: bool = False) -> StoredWriter:
        """A writer for a container at target (bucket, key). resumes: as in StoredWriter."""
        marked = {**container_marker(), **headers}
        return StoredWriter(
            self.upstream,
            self.journal,
            self.writes,
            target,
            marked,
            part_bytes=self.settings.part_bytes,
            plan=_STORED_CHECKSUM if self.settings.upstream_checksums else None,
            resumes=resumes,
        )


_CHECKPOINTS: Final = frozenset(Kind) - {Kind.UNKNOWN, Kind.CONTAINER}
_CUSTOMER_KEY: Final = "x-amz-server-side-encryption-customer-"
# Of stored bytes, on their way to the bucket; every S3-compatible server with checksums has this one.
_STORED_CHECKSUM: Final = ChecksumPlan("x-amz-checksum-crc32c", COMPOSITE)
# The first bytes, kept back until they show a gain, and what is cut of a chunk beside them.
_PROBE_BYTES: Final = 12 << 20
# Logical and stored bytes.
_FRAME_AHEAD_BYTES: Final = 2 << 20


def passed_headers(kind: Kind, headers: Headers) -> Headers:
    """The headers of a body that passes through; one that is a container of its own stays one for its reader."""
    return {**headers, **RAW} if kind is Kind.CONTAINER else headers


def sent_checksum(body: VerifiedBody, header: str | None = None) -> SentChecksum | None:
    """The client's own checksum, to go on to the bucket with a body that passes through. header: the only one wanted."""
    name = next((one for one in body.announced if header in (None, one)), None)
    if name is None:
        return None
    before = body.announced[name]
    return SentChecksum(name, lambda: before or body.checksums[name], known=before is not None)


async def chain(first: Iterable[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What was read ahead, then the rest."""
    for chunk in first:
        yield chunk
    async for chunk in rest:
        yield chunk
