"""Bits, nibbles and their exceptions against the oracle, at all alignments of what is stored."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec.entropy import bits, nibbles
from s4weights.codec.errors import FormatError
from s4weights.codec.gpu.jobs import Choice
from s4weights.codec.gpu.plane_coding import PlaneCoder, PlaneJob, write_few_bits
from s4weights.codec.gpu.plane_decoding import PlaneDecoder, StoredPlane
from s4weights.codec.gpu.stored_planes import head_bytes
from s4weights.codec.types import Level, Mode

SIZES = (1, 7, 8, 9, 63, 64, 65, 1000, 4096, 65_536, 65_537, 70_001)


def plane_of(n, common, rare, share, seed):
    """Symbols of `common`, and here and there any of `rare`."""
    rng = np.random.default_rng(seed)
    symbols = rng.choice(np.array(common, dtype=np.uint8), n)
    places = rng.random(n) < share
    symbols[places] = rng.choice(np.array(rare, dtype=np.uint8), int(places.sum()))
    return symbols.tobytes()


def cases():
    for i, n in enumerate(SIZES):
        for mask, value in ((0b1, 0), (0b1000_0010, 0b100), (0, 9), (0b0111_1110, 0x80), (0xFF, 0)):
            common = sorted({value | (s & mask) for s in range(256)})
            plane = plane_of(n, common, list(range(256)), 0.05 if i % 2 else 0, 10 * n + mask)
            yield Choice(Mode.BITS, 0, mask, value, 0, is_whole=True), plane, bits.Bits(mask, value)
        for first in (0, 120, 250):
            plane = plane_of(
                n, [(first + s) & 255 for s in range(16)], list(range(256)), 0.05 if i % 2 else 0, n + first
            )
            yield Choice(Mode.NIBBLES, 0, 0, 0, first, is_whole=True), plane, nibbles.Nibbles(first)


def test_blocks_and_exceptions_are_those_of_the_oracle_and_come_back(launcher, rooms):
    jobs, expected = [], []
    for choice, plane, coder in cases():
        room = rooms.holding(plane)
        jobs.append(PlaneJob(room.data_ptr(), len(plane), choice, room))
        expected.append((plane, coder.encode(plane, lambda m: m)))
    PlaneCoder(launcher, Level.FAST)._try_few_bits(jobs)
    placed = []
    for number, (job, (plane, stored)) in enumerate(zip(jobs, expected, strict=True)):
        if job.mode is Mode.CONSTANT:
            assert set(plane) == set(job.head)
            continue
        room = rooms.empty(job.stored_bytes, number % 5)
        placed.append((job, plane, stored, room))
        assert job.stored_bytes == len(stored)
        assert job.head == stored[: len(job.head)]
    write_few_bits(launcher, [(job, room.data_ptr()) for job, _, _, room in placed])
    decoder, targets = PlaneDecoder(launcher), []
    for number, (job, plane, stored, room) in enumerate(placed):
        assert room.cpu().numpy().tobytes()[len(job.head) :] == stored[len(job.head) :]
        source, target = rooms.holding(stored, number % 3), rooms.empty(len(plane))
        targets.append((source, target, plane))
        head = stored[: head_bytes(job.choice.mode, len(plane), len(stored))]
        where = f"plane {number}"
        decoder.add(
            StoredPlane(job.choice.mode, head, source.data_ptr(), len(stored), target.data_ptr(), len(plane), where)
        )
    decoder.run().check()
    for _, target, plane in targets:
        assert target.cpu().numpy().tobytes() == plane


@pytest.mark.parametrize("kind", ["twice", "behind", "long", "short", "parameters"])
def test_damage_is_refused_as_by_the_oracle(launcher, rooms, kind):
    n = 1000
    plane = bytearray(n)
    for place in (10, 500, 900):
        plane[place] = 77
    stored = bytearray(bits.Bits(1, 0).encode(bytes(plane), lambda m: m))
    positions = len(stored) - 9
    match kind:
        case "twice":
            stored[positions + 2 : positions + 4] = (10).to_bytes(2, "little")
        case "behind":
            stored[positions + 4 : positions + 6] = n.to_bytes(2, "little")
        case "long":
            stored += b"\0"
        case "short":
            del stored[3:]
        case "parameters":
            stored[1] = 1
    with pytest.raises(FormatError) as expected:
        bits.decode(bytes(stored), n)
    source, target = rooms.holding(bytes(stored)), rooms.empty(n)
    decoder = PlaneDecoder(launcher)
    head = bytes(stored[: head_bytes(Mode.BITS, n, len(stored))])

    def decode():
        decoder.add(StoredPlane(Mode.BITS, head, source.data_ptr(), len(stored), target.data_ptr(), n, "plane 3"))
        decoder.run().check()

    with pytest.raises(FormatError, match="plane 3") as found:
        decode()
    assert found.type is expected.type


def test_a_constant_plane_is_filled(launcher, rooms):
    targets = [rooms.empty(n) for n in (1, 65_537)]
    decoder = PlaneDecoder(launcher)
    source = rooms.holding(b"\x9c")
    for target in targets:
        decoder.add(
            StoredPlane(Mode.CONSTANT, b"\x9c", source.data_ptr(), 1, target.data_ptr(), len(target), "plane 0")
        )
    decoder.run().check()
    assert all(bool((target == 0x9C).all()) for target in targets)
