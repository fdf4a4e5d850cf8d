"""Hostile bodies: sniff and the segmenters cut them without raising, the same way however they come."""

from __future__ import annotations

import json

import numpy as np
import torch

from s4weights.codec.limits import SNIFF_BYTES
from s4weights.codec.sniff import sniff
from tests.codec.segments import real_files
from tests.codec.segments.cutting import cut

_SIZES = ([1], [7, 1, 4_096], [30], [65_536, 3])


def one(data: bytes) -> None:
    """data: how the body is fed, then the body."""
    if not data:
        return
    body = data[1:]
    kind = sniff(body, complete=True)
    assert kind is not None
    for size in (1, 9, 40, 300):
        seen = sniff(body[:size])
        assert seen in (None, kind) or size < len(body), "what was seen of a whole body changed"
        # From the moment that it is known, more of the body changes nothing.
        assert seen is None or seen is sniff(body[: size + 8]), "more of the body changed what it is"
    assert len(body) < SNIFF_BYTES or sniff(body) is not None
    whole = cut(body)
    assert not body or whole[-1].end >= len(body)
    assert cut(body, _SIZES[data[0] % len(_SIZES)]) == whole


def seeds() -> list[bytes]:
    """Small files of every format."""
    small = {
        "a": torch.zeros(300),
        "b": [torch.ones(2, 70, dtype=torch.bfloat16)],
        "c": torch.arange(200).view(10, 20).T,
    }
    header = {"__metadata__": {"a": 'x"\\'}, "w": {"dtype": "F32", "shape": [10, 20], "data_offsets": [0, 800]}}
    text = json.dumps(header).encode()
    bodies = [
        real_files.torch_zip(small),
        real_files.torch_legacy(small),
        real_files.torch_script(8),
        real_files.npy(np.zeros((3, 40), "<f4"), np.zeros(50, ">f8"), np.asfortranarray(np.ones((5, 9), "f2"))),
        real_files.npz()[:6_000],
        real_files.gguf_file()[:4_000],
        real_files.gguf_file(big_endian=True)[:4_000],
        len(text).to_bytes(8, "little") + text + bytes(800),
        len(text).to_bytes(8, "little") + text.replace(b", ", b"  ,\n") + bytes(800),
        real_files.torch_zip({"a": torch.ones(5)}) * 2 + len(text).to_bytes(8, "little") + text + bytes(800),
    ]
    return [bytes((number,)) + body for body in bodies for number in range(2)]
