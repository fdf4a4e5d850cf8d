"""The kernels of rANS against the oracle: chunks of all sizes at once, since each launch goes through the longest."""

from __future__ import annotations

import numpy as np
import pytest

from s4weights.codec import _native
from s4weights.codec.entropy import histogram, rans
from s4weights.codec.errors import ChecksumMismatch, FormatError, Truncated
from s4weights.codec.gpu.jobs import Choice
from s4weights.codec.gpu.plane_coding import PlaneCoder, PlaneJob
from s4weights.codec.gpu.plane_decoding import PlaneDecoder, StoredPlane
from s4weights.codec.gpu.stored_planes import head_bytes
from s4weights.codec.types import Level, Mode
from tests.gpu.conftest import INTERPRETED
from tests.gpu.planes import KINDS, exponents, two_symbols

RANS = Choice(Mode.RANS, 0, 0, 0, 0, is_whole=True)
# Around a row of 32 lanes; more rows than one.
SIZES = (2, 31, 32, 33, 64, 1000, 2049)
LARGE = (131_072, 131_073, 262_144 + 31)


def encoded(launcher, rooms, planes):
    """What kernel and host make of them, as one plane's bytes; raw where rANS is not smaller."""
    jobs = []
    for plane in planes:
        room = rooms.holding(plane)
        jobs.append(PlaneJob(room.data_ptr(), len(plane), RANS, room))
    coder = PlaneCoder(launcher, Level.BALANCED)
    coder.count(jobs)
    # Also where it is not smaller.
    coder._try_rans(jobs)
    return [job.head + b"".join(read(launcher, *piece) for piece in job.pieces) for job in jobs]


def read(launcher, address, length):
    from s4weights.codec.gpu.assembling import copy_pieces

    room = launcher.room(length)
    copy_pieces(launcher, [(address, room.data_ptr(), length)])
    return room.cpu().numpy().tobytes()


def decode(launcher, rooms, stored, sizes, offset=0):
    """The planes; each stored one at an odd address."""
    decoder = PlaneDecoder(launcher)
    targets = [rooms.empty(n) for n in sizes]
    kept = []
    for plane, n, target in zip(stored, sizes, targets, strict=True):
        room = rooms.holding(plane, 1)
        kept.append(room)
        head = plane[: head_bytes(Mode.RANS, n, len(plane))]
        decoder.add(StoredPlane(Mode.RANS, head, room.data_ptr(), len(plane), target.data_ptr(), n, f"plane of {n}"))
    decoder.run().check()
    return [target.cpu().numpy().tobytes() for target in targets]


def test_chunks_are_those_of_the_oracle_and_come_back(launcher, rooms):
    planes = [kind(size) for kind in KINDS for size in SIZES]
    planes = [plane for plane in planes if len(set(plane)) > 1]
    stored = encoded(launcher, rooms, planes)
    assert stored == [rans.encode(plane) for plane in planes]
    assert decode(launcher, rooms, stored, [len(plane) for plane in planes]) == planes


@pytest.mark.slow
def test_whole_chunks_and_several_of_them(launcher, rooms):
    planes = [kind(size) for kind in KINDS for size in LARGE]
    stored = encoded(launcher, rooms, planes)
    assert stored == [rans.encode(plane) for plane in planes]
    assert decode(launcher, rooms, stored, [len(plane) for plane in planes]) == planes


def test_frequencies_are_those_of_the_oracle():
    planes = [kind(size) for kind in KINDS for size in (*SIZES, *LARGE)]
    counts = [histogram(plane) for plane in planes if len(set(plane)) > 1]
    found = np.frombuffer(_native.normalise_histograms(np.stack(counts).astype(np.uint32)), dtype=np.uint16)
    assert (found.reshape(-1, 256) == np.stack([rans.normalise(one) for one in counts])).all()


def damaged(kind):
    plane = exponents(500)
    stored = bytearray(rans.encode(plane))
    count = sum(map(int.bit_count, stored[:32]))
    lengths_at = rans.table_bytes(count)
    match kind:
        case "state":
            stored[lengths_at + 4 : lengths_at + 8] = (65_535).to_bytes(4, "little")
        case "short":
            stored[lengths_at : lengths_at + 4] = (len(stored) - lengths_at - 4 - 20).to_bytes(4, "little")
            del stored[-20:]
        case "long":
            stored[lengths_at : lengths_at + 4] = (len(stored) - lengths_at - 4 + 2).to_bytes(4, "little")
            stored += b"\0\0"
        case "word":
            stored[-1] ^= 0x40
        case "sum":
            stored[32] ^= 1
        case "zero":
            stored[32] = 0
            stored[33] &= 0xF0
        case "odd":
            stored[lengths_at] |= 1
        case "symbols":
            stored[:32] = b"\1" + bytes(31)
        case "cut":
            del stored[20:]
    return plane, bytes(stored)


@pytest.mark.parametrize("kind", ["state", "short", "long", "word", "sum", "zero", "odd", "symbols", "cut"])
def test_damage_is_refused_as_by_the_oracle(launcher, rooms, kind):
    plane, stored = damaged(kind)
    with pytest.raises(FormatError) as expected:
        rans.decode(stored, len(plane))
    with pytest.raises(FormatError, match="plane of 500") as found:
        decode(launcher, rooms, [stored], [len(plane)])
    assert found.type is expected.type
    if kind in ("short", "cut"):
        assert found.type is Truncated
    if kind in ("long", "word"):
        assert found.type is ChecksumMismatch


def test_one_bad_chunk_among_good_ones_is_named(launcher, rooms):
    plane, stored = damaged("word")
    good = two_symbols(300)
    with pytest.raises(ChecksumMismatch, match="plane of 500: rANS chunk 0"):
        decode(launcher, rooms, [rans.encode(good), stored, rans.encode(good)], [300, len(plane), 300])


def test_interpreter_and_gpu_are_told_apart(device):
    assert device.type == ("cpu" if INTERPRETED else "cuda")
