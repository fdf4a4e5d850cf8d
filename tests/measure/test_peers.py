"""Peers give back what they were given; one that fails or lies is named, and the others are measured."""

from __future__ import annotations

import os
import signal
from importlib.util import find_spec

import numpy as np
import pytest

from s4weights.codec.engines import NativeEngine
from s4weights.codec.types import ElementType, Frame
from s4weights.measure import rounds
from s4weights.measure.blocks import BLOCK_BYTES, join_blocks
from s4weights.measure.candidate import DECODE, ENCODE, CandidateFailed
from s4weights.measure.peers import Peer, open_peers
from s4weights.measure.rounds import measure, sum_up
from s4weights.measure.synthetic import make_checkpoint
from s4weights.measure.zipnn_peer import ZIPNN_TYPES, ZipnnPeer
from tests.codec.samples import normal

BF16 = normal(100_000)
ENGINE = NativeEngine()
BALANCED = "s4weights balanced"


def frames(data: bytes = BF16, element: ElementType = ElementType.BF16) -> list[Frame]:
    half = len(data) // 2
    return [Frame(0, element, data[:half]), Frame(half, element, data[half:])]


@pytest.mark.parametrize("element", [one for one in ElementType if one is not ElementType.BYTES])
def test_every_peer_gives_back_every_type(element):
    data = np.random.default_rng(0).integers(0, 60, 240_000, np.uint8).tobytes()
    blocks = [data[:160_000], data[160_000:]]
    makers = dict(open_peers(element, blocks))
    assert ("zipnn" in makers) is (element in ZIPNN_TYPES and find_spec("zipnn") is not None)
    assert "zstd-1" in makers
    makers.pop("zipnn", None)  # below: its process takes seconds to start
    for name, make in makers.items():
        candidate = make()
        assert candidate.is_identical(), name
        assert 0 < candidate.stored_bytes() < 1.1 * len(data), name
        assert sum(candidate.steps[ENCODE]()) > 0
        assert sum(candidate.steps[DECODE]()) > 0
        candidate.close()


@pytest.mark.skipif(find_spec("zipnn") is None, reason="zipnn is not installed")
def test_zipnn_works_in_its_own_process_and_its_end_is_named():
    peer = ZipnnPeer(ElementType.BF16, [BF16])
    try:
        assert peer.is_identical()
        assert 1.3 < len(BF16) / peer.stored_bytes() < 1.7
        assert sum(peer.steps[ENCODE]()) > 0
        assert sum(peer.steps[DECODE]()) > 0
        os.kill(peer._process.pid, signal.SIGSEGV)
        with pytest.raises(CandidateFailed, match="ended with -11"):
            peer.steps[ENCODE]()
    finally:
        peer.close()


def broken() -> Peer:
    raise RuntimeError("a\nbad day")


def late() -> Peer:
    """Decodes twice (once to compare, once in the first round), then no more."""
    left = iter(range(4))
    return Peer([BF16], bytes, lambda stored: stored if next(left) < 2 else broken())


def test_who_fails_is_named_and_the_others_are_measured(monkeypatch):
    peers = [("broken", broken), ("liar", lambda: Peer([BF16], bytes, lambda stored: stored[::-1])), ("late", late)]
    monkeypatch.setattr(rounds, "open_peers", lambda *_: iter(peers))
    results = {
        one.candidate: one for one in measure("weights", ElementType.BF16, frames(), ENGINE, 3, levels=["balanced"])
    }
    assert results["broken"].failure == "RuntimeError: a bad day"
    assert "not what it was given" in str(results["liar"].failure)
    assert results["late"].failure == "RuntimeError: a bad day"
    assert not results["late"].seconds
    assert results["memcpy"].failure is results[BALANCED].failure is None
    assert results[BALANCED].speed(DECODE) is not None
    assert {one.candidate for one in sum_up(list(results.values()))} == {"memcpy", BALANCED}


def test_each_round_measures_everyone_once_and_begins_with_another(monkeypatch):
    order = []

    def spy(name: str) -> Peer:
        return Peer([BF16], lambda block: order.append(name) or bytes(block), bytes)

    peers = [("a", lambda: spy("a")), ("b", lambda: spy("b"))]
    monkeypatch.setattr(rounds, "open_peers", lambda *_: iter(peers))
    told = []
    measure("weights", ElementType.BF16, frames(), ENGINE, 4, told.append, levels=["balanced"])
    assert order == ["a", "b", "a", "b", "a", "b", "a", "b", "b", "a"]
    assert told == [len(BF16)] * 4


def test_sums_are_of_bytes_and_seconds_not_of_ratios():
    results = []
    for name, data in (("x", BF16), ("y", bytes(40_000))):
        results += measure(name, ElementType.BF16, frames(data), ENGINE, 1, levels=["balanced"], peers=())
    total = next(one for one in sum_up(results) if one.candidate == BALANCED)
    mine = [one for one in results if one.candidate == BALANCED]
    assert total.logical_bytes == len(BF16) + 40_000
    assert total.ratio == pytest.approx(total.logical_bytes / sum(one.stored_bytes for one in mine))
    assert total.seconds[DECODE] == pytest.approx(sum(one.seconds[DECODE] for one in mine))


def test_blocks_hold_whole_frames_in_order():
    many = [Frame(0, ElementType.U8, bytes([number]) * (5 << 20)) for number in range(4)]
    blocks = join_blocks(many)
    assert [len(block) >> 20 for block in blocks] == [15, 5]
    assert b"".join(blocks) == b"".join(frame.data for frame in many)
    assert max(map(len, blocks)) <= BLOCK_BYTES
    assert join_blocks([]) == []


def test_the_synthetic_checkpoint_is_the_same_in_every_call():
    assert make_checkpoint() == make_checkpoint()
