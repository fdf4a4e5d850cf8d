"""Every bound of the proxy, with its unit and its reason."""

from __future__ import annotations

from typing import Final

from s4weights.codec.container import HEADER_BYTES, INDEX_HEADER_BYTES, TRAILER_BYTES

MIB: Final = 1 << 20

# What is handed on of a client's body at once. Each piece costs some hops between threads, so it is more where memory is
# held for the body already; beyond 2 MiB it has left the processor's caches before the next one reads it.
GATHERED_BYTES: Final = 1 * MIB
GATHERED_WHERE_HELD_BYTES: Final = 2 * MIB
# Of stored bytes on their way to the local disk, in one call: with 4 MiB the copy into the page cache costs five times as much.
KEPT_AT_ONCE_BYTES: Final = 1 * MIB

# S3's own bounds.
MIN_PART_BYTES: Final = 5 * MIB
MAX_PARTS: Final = 10_000
MAX_PUT_BYTES: Final = 5 << 30

# Upstream parts grow so that 10,000 of them hold a large object while a small one starts early:
# (from this part number on, this many times the configured part). With 8 MiB: 848 GiB in all.
PART_GROWTH: Final = ((1, 1), (1_001, 4), (4_001, 16))
# Upstream parts of one stream on their way at once; S3 gives about 80 MB/s a connection.
PARTS_IN_FLIGHT: Final = 4

# A body is passed through where its first bytes do not gain this much; looked at are the first PROBE_BYTES.
PROBE_BYTES: Final = 8 * MIB
MIN_GAIN: Final = 0.01

# Contiguous parts at the end of an open upload that are not yet encoded, so that sending one again with other
# bytes, or leaving one out at the end, still works for uploads up to this size (ADR 0003).
SETTLE_BYTES: Final = 32 * MIB
# Parts of more than this are spilled to disk even where memory is free.
MAX_MEMORY_PART_BYTES: Final = 64 * MIB
MAX_OPEN_UPLOADS: Final = 1_000
# Answers of finished uploads, kept for a client that repeats its Complete after a lost answer.
COMPLETED_KEPT: Final = 1_000

# The last bytes of a stored object, read with its headers in one call: with the index of a few GiB, or the trailer only.
TAIL_WITH_INDEX_BYTES: Final = 64 << 10
# Below this nothing can be a container.
MIN_CONTAINER_BYTES: Final = HEADER_BYTES + INDEX_HEADER_BYTES + TRAILER_BYTES

# One upstream range of a read, in bytes of the body: short enough to come in parallel, long enough that the round trip
# before it (30 ms on S3) costs little beside its transfer at 80 MB/s.
READ_RUN_BYTES: Final = 8 * MIB
# How far one read is ahead of its client: from the first to the second, as the budget has room.
READ_WINDOW_BYTES: Final = 3 * READ_RUN_BYTES
READ_WINDOW_MAX_BYTES: Final = 10 * READ_RUN_BYTES
READ_ATTEMPTS: Final = 3

# At the end, after the drain: open uploads are aborted so long; what is left stands in the journal.
CLOSE_S: Final = 15.0

# HEADs of one listing page at once.
LISTING_CALLS: Final = 32
# On disk, of about 100 bytes each.
LISTING_CACHE_ROWS: Final = 500_000
INDEX_CACHE_BYTES: Final = 32 * MIB

# Bases that are kept open, each with its index and perhaps a file; and their frames that were decoded last: neighbouring
# frames of a dependent seldom begin where those of its base do.
OPEN_BASES: Final = 64
BASE_FRAMES_BYTES: Final = 32 * MIB
# While a frame is encoded: the ranges that it is tried against, of itself and of one base, up to 2 MiB each.
BASES_OF_A_FRAME_BYTES: Final = 4 * MIB

# The search for a base: objects written here lately, candidates that are looked into, and what a folder held a moment ago,
# read page by page (1,000 names each).
RECENT_OBJECTS: Final = 4_096
MOST_CANDIDATES: Final = 3
LISTED_FOR_S: Final = 5.0
LISTED_PAGES: Final = 5

# The entitlement at the start: link-local answers are small and come at once; the metering service is in the region.
METADATA_S: Final = 2.0
METADATA_BYTES: Final = 64 << 10
METERING_CONNECT_S: Final = 5.0
METERING_READ_S: Final = 10.0
CLOCK_SKEW_S: Final = 300
MIN_RSA_BITS: Final = 2048
# One look of `s4weights watch` at the health port on this machine.
LOOK_S: Final = 10.0
LOOK_BYTES: Final = 4 * MIB
# Who may not run is told why on the health port for so long, then the process ends.
REFUSAL_SHOWN_S: Final = 30.0
