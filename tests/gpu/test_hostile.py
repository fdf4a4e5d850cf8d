"""Payloads that somebody changed: refused, or decoded to what native makes of them; nothing outside is touched."""

from __future__ import annotations

import random

import pytest
import torch

from s4weights.codec.engines import NativeEngine
from s4weights.codec.errors import FormatError
from s4weights.codec.gpu.interface import StoredFrame
from s4weights.codec.types import BaseKind, ElementType, Grid, Layout, Level, Mode, Predictor
from tests.codec.engines.bodies import moments, weights
from tests.gpu.frames import Case

NATIVE = NativeEngine()
BF16, F32 = ElementType.BF16, ElementType.F32
MUTANTS = 25


def cases():
    nudged = bytearray(weights(600, BF16))
    nudged[::14] = bytes(len(nudged[::14]))
    return {
        "rans": (Case(moments(30, 40, BF16, products=1), BF16, Grid(40)), Level.SMALL),
        "nibbles": (Case(bytes([7, 8, 9, 10] * 300), ElementType.U8), Level.FAST),
        "bits": (Case(weights(600, F32), F32), Level.FAST),
        "huffman": (Case(weights(2000, BF16), BF16), Level.BALANCED),
        "delta": (Case(weights(600, BF16), BF16, bases=((BaseKind.SAME, bytes(nudged)),)), Level.BALANCED),
    }


def mutants(payload, seed):
    """Bits turned, bytes replaced by extremes, cut and grown; the head more often than the rest."""
    rng = random.Random(seed)
    for _ in range(MUTANTS):
        changed = bytearray(payload)
        place = rng.randrange(min(len(changed), 60)) if rng.random() < 0.7 else rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[place] ^= 1 << rng.randrange(8)
            case 1:
                changed[place] = rng.choice([0, 1, 127, 128, 255])
            case 2:
                del changed[place:]
            case _:
                changed[place:place] = bytes([rng.randrange(256)])
        yield bytes(changed)


@pytest.mark.parametrize("name", list(cases()))
def test_mutants_do_no_harm_and_decode_as_native_decodes_them(codec, rooms, name):
    case, level = cases()[name]
    huffman = name == "huffman"
    coded = NATIVE.encode(case.data, case.element, level=level) if huffman else case.native(level)
    base = None if coded.base is None else case.bases[coded.base][1]
    assert coded.layout is not Layout.RAW
    refused = 0
    for payload in mutants(bytes(coded.payload), 3):
        how = (coded.element, coded.predictor, coded.layout, coded.planes, len(case.data))
        try:
            expected = NATIVE.decode(payload, *how, base)
        except FormatError:
            expected = None
        out = rooms.empty(len(case.data))
        try:
            on_device = None if base is None else rooms.holding(base, 3)
            codec.decode([StoredFrame(rooms.holding(payload, 1), *how, on_device)], [out])
        except FormatError as error:
            assert "frame 0 of the batch" in str(error)
            found = None
        else:
            found = out.cpu().numpy().tobytes()
        assert found == expected
        refused += expected is None
    rooms.check()
    assert refused > MUTANTS // 4


def test_headers_that_contradict_themselves_are_refused(codec, rooms):
    data = weights(600, BF16)
    coded = NativeEngine(huffman=False).encode(data, BF16)
    payload = rooms.holding(bytes(coded.payload))
    base = rooms.holding(data)
    good = (BF16, Predictor.NONE, Layout.ROTATED_1, 2, len(data))
    out = rooms.empty(len(data))
    codec.decode([StoredFrame(payload, *good)], [out])
    assert out.cpu().numpy().tobytes() == data
    for wrong in (
        (F32, Predictor.NONE, Layout.ROTATED_1, 2, len(data)),
        (BF16, Predictor.WIDENED, Layout.PLANES, 2, len(data), base),
        (BF16, Predictor.NONE, Layout.PLANES, 2, len(data)),
        (BF16, Predictor.NONE, Layout.RAW, 0, len(data)),
        (BF16, Predictor.XOR, Layout.ROTATED_1, 2, len(data)),
        (BF16, Predictor.XOR, Layout.ROTATED_1, 2, len(data), base[:-2]),
        (BF16, Predictor.NONE, Layout.ROTATED_1, 2, len(data), base),
        (BF16, Predictor.XOR, Layout.RAW, 0, len(data), base),
    ):
        with pytest.raises(FormatError, match="frame 0 of the batch"):
            codec.decode([StoredFrame(payload, *wrong)], [out])
    with pytest.raises(ValueError, match="out: expected"):
        codec.decode([StoredFrame(payload, *good)], [out[:-1]])


def test_zstd_is_for_bytes_without_a_type(codec, rooms):
    payload = bytearray(NativeEngine(huffman=False).encode(weights(600, BF16), BF16).payload)
    payload[0] = Mode.ZSTD
    out = torch.empty(1200, dtype=torch.uint8, device=rooms.empty(1).device)
    with pytest.raises(FormatError, match="found zstd"):
        codec.decode(
            [StoredFrame(rooms.holding(bytes(payload)), BF16, Predictor.NONE, Layout.ROTATED_1, 2, 1200)], [out]
        )
