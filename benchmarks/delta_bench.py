"""Checkpoints of one run, some steps apart: stored by themselves, with twins, on an earlier one; beside the peers' ways."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from codec_bodies import types_apart
from codec_targets import Target, divide
from make_data import DATA
from results import machine, markdown_table, write_section
from train_gpt import PRECISIONS, SIZES, checkpoint_paths, save_checkpoints

from s4weights.codec.bases import BasePlanner, BaseTable
from s4weights.codec.bases.align import Alignment
from s4weights.codec.container import BaseBody
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import NativeEngine
from s4weights.codec.types import Base, BaseKind, BaseRange, Frame, Level
from s4weights.measure.rounds import measure

ENGINE = NativeEngine()
PEERS = ("zipnn", "zstd", "openzl")
PLAIN, TWINS, DELTA, BOTH, SMALL = "plain", "twins", "delta", "delta + twins", "the same, small"
OURS = (PLAIN, TWINS, DELTA, BOTH, SMALL)
BF16_MODEL, FP32_MASTER, MIXED = "bf16 model", "fp32 master", "mixed checkpoint"
# Of each precision: what of it is measured, and the end of its file.
BODIES = {
    "mixed": {BF16_MODEL: ".safetensors", MIXED: ".pt"},
    "fp32": {FP32_MASTER: ".safetensors", "fp32 checkpoint": ".pt"},
    "bf16": {"bf16 checkpoint": ".pt"},
}
# What users of a peer do for deltas, zipnn's own delta mode included: the peer on the XOR of both.
XOR = " of XOR"


@dataclass(frozen=True)
class Row:
    """One body on an earlier one. stored: bytes by candidate."""

    name: str
    apart: int
    logical_bytes: int
    stored: dict[str, int]


class Body:
    """A file, cut in frames, with its table as a base."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        encoder = Encoder()
        self.frames = encoder.plan(self.data) + encoder.plan_end()
        self.about = BaseBody(path.name, len(self.data), encoder.digest)
        self.table = BaseTable.of_rows(1, len(self.data), encoder.segments)

    def read(self, wanted: BaseRange) -> bytes:
        return self.data[wanted.reference.start :][: wanted.length]


body_of = cache(Body)


def container_bytes(body: Body, base: Body | None, *, twins: bool, level: Level = Level.BALANCED) -> int:
    """Of the whole container, every frame verified."""
    encoder = Encoder(bases=[base.about] if base else [])
    encoder.plan(body.data)
    encoder.plan_end()
    planner = BasePlanner([base.table] if base else [], size=len(body.data), twins=twins)
    size = len(encoder.start())
    for frame in body.frames:
        found = []
        for one in planner.offers(frame):
            source = base if base and one.reference.number else body
            found.append(Base(one.reference, one.kind, source.read(one)))
        encoded = encode_frame(replace(frame, bases=tuple(found)), ENGINE, level)
        planner.added(encoded)
        encoder.add(encoded)
        size += encoded.stored_bytes
    return size + len(encoder.finish())


def xored(body: Body, base: Body) -> list[Frame]:
    """Every frame by XOR with its like in the base, where there is one."""
    alignment = Alignment(base.table, len(body.data))
    found = []
    for frame in body.frames:
        like = alignment.find(frame)
        if like is not None and like.kind is BaseKind.SAME:
            pair = (np.frombuffer(data, np.uint8) for data in (frame.data, base.read(like)))
            frame = replace(frame, data=np.bitwise_xor(*pair).tobytes())
        found.append(frame)
    return found


def peer_bytes(frames: Sequence[Frame]) -> dict[str, int]:
    """By peer: each type by itself; bytes without a type as they are."""
    by_type, untyped = types_apart(frames)
    found: dict[str, list[int]] = {}
    for element, some in by_type.items():
        for one in measure("", element, some, ENGINE, 0, levels=(), peers=PEERS):
            if one.failure is None and one.candidate not in ("memcpy", "zstd-1"):
                found.setdefault(one.candidate.partition(" deconstruct")[0], []).append(one.stored_bytes)
    return {name: untyped + sum(sizes) for name, sizes in found.items() if len(sizes) == len(by_type)}


def measure_row(name: str, later: Path, earlier: Path, apart: int) -> Row:
    body, base = body_of(later), body_of(earlier)
    stored = {
        PLAIN: container_bytes(body, None, twins=False),
        TWINS: container_bytes(body, None, twins=True),
        DELTA: container_bytes(body, base, twins=False),
        BOTH: container_bytes(body, base, twins=True),
        SMALL: container_bytes(body, base, twins=True, level=Level.SMALL),
    }
    stored |= peer_bytes(body.frames)
    stored |= {f"{peer}{XOR}": size for peer, size in peer_bytes(xored(body, base)).items()}
    return Row(name, apart, len(body.data), stored)


def targets(rows: Sequence[Row]) -> list[Target]:
    found = []
    for row in rows:
        name = f"{row.name}, {row.apart} steps apart"
        found.append(Target(f"{name}: delta + twins by plain", 1, row.stored[BOTH] / row.stored[PLAIN], is_most=True))
        most = {BF16_MODEL: 0.40, FP32_MASTER: 0.70}.get(row.name) if row.apart == 10 else None
        if most is not None:
            share = row.stored[SMALL] / row.logical_bytes
            found.append(Target(f"{name}: delta + twins, `small`, by raw", most, share, is_most=True))
        if row.name == MIXED:
            share = divide(row.stored[TWINS], row.stored.get("zipnn"))
            found.append(Target(f"{name}: by itself, twins, by zipnn", 0.88, share, is_most=True))
    return found


def report(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys([*OURS, *(name for row in rows for name in row.stored)]))
    table = [
        [
            f"{row.name}, {row.apart}",
            f"{row.logical_bytes / 1e6:.1f}",
            *(f"{row.stored[name] / row.logical_bytes:.3f}" if name in row.stored else "" for name in names),
        ]
        for row in rows
    ]
    held = [[*one.cells()[:3], one.cells()[4]] for one in targets(rows)]
    return "\n\n".join(
        [
            markdown_table(["checkpoint, steps apart", "MB", *names], table),
            markdown_table(["target", "required", "found", "met"], held),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--precision", choices=PRECISIONS, nargs="+", default=list(PRECISIONS))
    parser.add_argument("--first", type=int, default=200, metavar="STEP", help="the earlier checkpoint")
    parser.add_argument("--apart", type=int, nargs="+", default=[1, 10, 50], metavar="STEPS")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    steps = [options.first, *(options.first + apart for apart in sorted(options.apart))]
    save_checkpoints(DATA, options.size, options.precision, steps)
    rows = []
    for precision in options.precision:
        for name, end in BODIES[precision].items():
            paths = [path for path in checkpoint_paths(DATA, options.size, [precision], steps) if path.suffix == end]
            for path, step in zip(paths[1:], steps[1:], strict=True):
                rows.append(measure_row(name, path, paths[0], step - options.first))
                print(rows[-1], flush=True)
            body_of.cache_clear()
    text = (
        f"A GPT in training (`train_gpt.py`, {options.size}), its checkpoints so many steps after step {options.first}; "
        "`balanced` but for one column, verified, whole containers. Stored bytes by raw bytes. twins: tensors of the same "
        "file, such as a bf16 model beside its fp32 master weights; delta: on the checkpoint of the first step. Peers get each "
        f"type by itself, '{XOR.strip()}' as their delta modes do: the XOR of both checkpoints, tensor by tensor.\n\n"
        f"{report(rows)}\n\n{machine()}"
    )
    print(text)
    if not options.dry_run:
        write_section(f"Deltas and twins, gpt-{options.size}", text)


if __name__ == "__main__":
    main()
