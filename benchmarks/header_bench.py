"""Memory and time of a safetensors header of 1.29 million tensors, at a quarter, a half and whole; each in its own process."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

from results import machine, markdown_table, write_section

from s4weights.codec.encode import Encoder

TENSORS = 1_290_000
MEMBERS_AT_ONCE = 10_000
PIECE_BYTES = 1 << 20
TENSOR_BYTES = 512
DATA_BYTES = 4 << 20
MIB = 1 << 20


def members(count: int) -> Iterator[bytes]:
    """The header's text in pieces, every member of the same length."""
    for first in range(0, count, MEMBERS_AT_ONCE):
        rows = range(first, min(first + MEMBERS_AT_ONCE, count))
        text = b",".join(
            b'"layers.%04d.experts.%03d.w":{"dtype":"BF16","shape":[16,16],"data_offsets":[%10d,%10d]}'
            % (row // 1_000, row % 1_000, TENSOR_BYTES * row, TENSOR_BYTES * (row + 1))
            for row in rows
        )
        yield (b"," if first else b"{") + text
    yield b"}"


def one(count: int) -> dict[str, float]:
    """Plan a body of this header, with the first of its data, in pieces of a MiB."""
    header_bytes = sum(map(len, members(count)))
    encoder, held = Encoder(), bytearray(header_bytes.to_bytes(8, "little"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = longest = 0.0
    for text in members(count):
        held += text
        while len(held) >= PIECE_BYTES:
            piece = bytes(held[:PIECE_BYTES])
            del held[:PIECE_BYTES]
            started = time.process_time()
            encoder.plan(piece)
            took = time.process_time() - started
            seconds, longest = seconds + took, max(longest, took)
    started = time.process_time()
    encoder.plan(bytes(held) + bytes(DATA_BYTES))
    seconds += time.process_time() - started
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    # The header was understood: what has come, and what has begun, is known by name.
    assert len(encoder.segments) == DATA_BYTES // TENSOR_BYTES + 1
    return {"tensors": count, "header": header_bytes, "peak": peak, "seconds": seconds, "longest": longest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tensors", type=int, default=TENSORS)
    parser.add_argument("--dry-run", action="store_true", help="print, write nothing")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(one(options.one)))
        return
    rows = []
    for count in (options.tensors // 4, options.tensors // 2, options.tensors):
        command = [sys.executable, __file__, "--one", str(count)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        rows.append(
            [
                f"{found['tensors']:,}",
                f"{found['header'] / 1e6:.1f}",
                f"{found['peak'] / MIB:.0f}",
                f"{found['peak'] / found['header']:.2f}",
                f"{found['seconds']:.1f}",
                f"{1e6 * found['seconds'] / found['tensors']:.1f}",
                f"{found['longest']:.2f}",
            ]
        )
    columns = ["tensors", "header MB", "peak MiB", "peak by header", "CPU s", "µs a tensor", "longest step s"]
    table = markdown_table(columns, rows)
    text = f"{machine()} Fed in pieces of 1 MiB; peak: memory over that of the empty process.\n\n{table}"
    print(text)
    if not options.dry_run:
        write_section("A header of 1.29 million tensors", text)


if __name__ == "__main__":
    main()
