"""Copies between any addresses, comparisons, and bytes that come again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from s4weights.codec.engines.payload import _repeats
from s4weights.codec.gpu.assembling import copy_pieces
from s4weights.codec.gpu.comparing import Comparisons, Repeats
from s4weights.codec.prediction import narrow


def test_pieces_of_all_sizes_from_and_to_all_places(launcher, rooms):
    pieces = []
    for length in (0, 1, 2, 3, 4, 5, 7, 8, 63, 1000, 4099, 65_536 + 3):
        for source_offset in range(4):
            for target_offset in range(4) if length < 64 else (0, 3):
                data = np.random.default_rng(length).bytes(length)
                pieces.append((data, rooms.holding(data, source_offset), rooms.empty(length, target_offset)))
    copy_pieces(launcher, [(source.data_ptr(), target.data_ptr(), len(data)) for data, source, target in pieces])
    for data, _, target in pieces:
        assert target.cpu().numpy().tobytes() == data


def test_one_byte_that_differs_is_found_wherever_it_lies(launcher, rooms):
    comparisons, expected = Comparisons(launcher), []
    for length in (0, 1, 16, 4095, 4096, 4097, 9000):
        data = np.random.default_rng(length).bytes(length)
        for changed in (None, 0, length // 2, length - 1):
            if changed is not None and not 0 <= changed < length:
                continue
            other = bytearray(data)
            if changed is not None:
                other[changed] ^= 0x80
            for offsets in ((0, 0), (0, 5), (3, 3)):
                comparisons.add(rooms.holding(data, offsets[0]), rooms.holding(bytes(other), offsets[1]))
                expected.append(changed is None)
    comparisons.launch()
    assert comparisons.read() == expected


def test_what_is_narrowed_is_recognised(launcher, rooms):
    wide = np.random.default_rng(0).bytes(4 * 9001)
    same = narrow(wide)
    other = bytearray(same)
    other[-1] ^= 1
    comparisons = Comparisons(launcher)
    for data in (same, bytes(other)):
        comparisons.add(rooms.holding(data), rooms.holding(wide), narrowed=True)
    comparisons.launch()
    assert comparisons.read() == [True, False]


def test_bytes_that_come_again_are_found_where_the_document_says(launcher, rooms):
    rng = np.random.default_rng(0)
    noise = rng.bytes(40_000)
    start = noise[:64]
    datas = [noise, noise[:64], noise[:65], noise[:10], bytes(5000), start * 3, b"ab" * 5000]
    for place in (63, 64, 65, 1000, 32_703, 32_704, 32_705, 39_000):
        copied = bytearray(noise)
        copied[place : place + 64] = copied[:64]
        datas.append(bytes(copied))
    # All but the last byte.
    near = bytearray(noise)
    near[500:564] = start
    near[563] ^= 1
    datas.append(bytes(near))
    found = Repeats(launcher, [rooms.holding(data) for data in datas]).read()
    assert found == [_repeats(data) for data in datas]
    assert True in found
    assert False in found


def test_equal_says_it_of_every_pair(codec, rooms):
    one, other = rooms.holding(b"some bytes"), rooms.holding(b"some bytez", 1)
    assert codec.equal([one, one], [other, one]) == [False, True]
    assert codec.equal([], []) == []
    with pytest.raises(ValueError, match="one length"):
        codec.equal([one], [torch.empty(0, dtype=torch.uint8, device=one.device)])
