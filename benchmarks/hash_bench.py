"""Hashes that the codec and S3's clients use, beside memcpy: which of them can keep up with the codec."""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import xxhash
from awscrt import checksums
from results import machine, markdown_table, write_section

from s4weights.codec._native import crc32c
from s4weights.codec.limits import FRAME_BYTES
from s4weights.measure.candidate import timed

HASHES: dict[str, Callable[[bytes], object]] = {
    "XXH3-64": xxhash.xxh3_64_intdigest,
    "XXH3-128": xxhash.xxh3_128_digest,
    "CRC32C (ours)": crc32c,
    "CRC32C (awscrt)": checksums.crc32c,
    "CRC64-NVME (awscrt)": checksums.crc64nvme,
    "SHA-256": lambda data: hashlib.sha256(data).digest(),
    "SHA-1": lambda data: hashlib.sha1(data, usedforsecurity=False).digest(),
    "MD5": lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
}


def measure_hashes(mib: int, runs: int) -> dict[str, tuple[float, float]]:
    """Name -> GB/s by medians and by each frame's fastest round. Frames lie far apart, so that none is in the cache."""
    frames = [os.urandom(FRAME_BYTES) for _ in range(mib)]
    targets = [np.array(np.frombuffer(frame, np.uint8)) for frame in frames]
    works: dict[str, list[Callable[[], object]]] = {
        "memcpy": [
            partial(np.copyto, to, np.frombuffer(frame, np.uint8)) for frame, to in zip(frames, targets, strict=True)
        ]
    }
    works |= {name: [partial(work, frame) for frame in frames] for name, work in HASHES.items()}
    times: dict[str, list[list[float]]] = {name: [] for name in works}
    for _ in range(runs):
        for name, some in works.items():
            times[name].append([timed(work) for work in some])
    size = mib * FRAME_BYTES / 1e9
    return {
        name: tuple(size / sum(map(pick, zip(*rounds, strict=True))) for pick in (median, min))
        for name, rounds in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=32)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    rows = [
        [name, f"{usual:.2f}", f"{fastest:.2f}"]
        for name, (usual, fastest) in measure_hashes(options.mib, options.runs).items()
    ]
    text = (
        f"One thread, {options.mib} frames of 1 MiB, {options.runs} rounds in turn, called from Python as we call them.\n\n"
        f"{markdown_table(['', 'GB/s, medians', 'fastest rounds'], rows)}\n\n{machine()}"
    )
    print(text)
    if not options.dry_run:
        write_section("Hashes", text)


if __name__ == "__main__":
    main()
