"""The fuzzers' own inputs: every seed and some mutants pass, and a target sees a fault."""

from __future__ import annotations

import io

import pytest

from s4weights.codec.decode import iter_body
from s4weights.codec.errors import FormatError
from tests.fuzz import bodies, containers, engines
from tests.fuzz.mutate import Mutator

MUTANTS = 60


@pytest.mark.parametrize("target", [bodies, containers, engines], ids=lambda one: one.__name__.rpartition(".")[2])
def test_seeds_and_mutants_pass(target):
    seeds = target.seeds()
    for seed in seeds:
        target.one(seed)
    mutator = Mutator(seeds, 1)
    for _ in range(MUTANTS):
        target.one(mutator.next())


def test_mutants_are_the_same_for_the_same_number():
    seeds = containers.seeds()
    first, second, other = Mutator(seeds, 1), Mutator(seeds, 1), Mutator(seeds, 2)
    assert [first.next() for _ in range(20)] == [second.next() for _ in range(20)]
    assert [first.next() for _ in range(20)] != [other.next() for _ in range(20)]


def test_a_container_is_sealed_again_so_that_fields_behind_checksums_are_judged():
    stored = bytearray(next(seed[1:] for seed in containers.seeds() if len(seed) > 2_000))
    stored[len(stored) - 40] ^= 1  # reserved bytes of the trailer, which only its checksum covers
    with pytest.raises(FormatError, match="CRC32C"):
        read(bytes(stored))
    read(containers.sealed(bytes(stored), repack=False))


def read(stored: bytes) -> bytes:
    return b"".join(iter_body(io.BytesIO(stored), engines.NativeEngine()))
