"""Bodies that the codec must know, made by the real libraries."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import xxhash
from safetensors.torch import save

from s4weights.codec.bases import BasePlanner, BaseTable
from s4weights.codec.container import BaseBody, read_bases
from s4weights.codec.decode import check_reference, iter_body, read_tail
from s4weights.codec.encode import Encoder, encode_frame
from s4weights.codec.engines import Engine, NativeEngine
from s4weights.codec.types import Base, BaseRange, Buffer, Frame, Level

NATIVE = NativeEngine()


def pack(
    body: bytes,
    engine: Engine = NATIVE,
    sizes: list[int] | None = None,
    level: Level = Level.BALANCED,
    *,
    bases: Mapping[str, bytes] | None = None,
    twins: bool = False,
) -> tuple[bytes, Encoder]:
    """A container. sizes: how the body is fed, the last one repeated. bases: bodies by key, in order."""
    others = dict(bases or {})
    encoder = Encoder(bases=[base_body(key, other) for key, other in others.items()])
    tables = [
        BaseTable.of_rows(number, len(other), pack(other)[1].segments)
        for number, other in enumerate(others.values(), 1)
    ]
    planner = BasePlanner(tables, size=len(body), twins=twins)
    out: list[Buffer] = [encoder.start()]
    bodies = [body, *others.values()]

    def store(frames: list[Frame]) -> None:
        for frame in frames:
            found = tuple(
                Base(one.reference, one.kind, bodies[one.reference.number][one.reference.start :][: one.length])
                for one in planner.offers(frame)
            )
            encoded = encode_frame(replace(frame, bases=found), engine, level)
            planner.added(encoded)
            out.extend(encoder.add(encoded))

    at, number = 0, 0
    while at < len(body):
        size = sizes[min(number, len(sizes) - 1)] if sizes else len(body)
        store(encoder.plan(body[at : at + size]))
        at, number = at + size, number + 1
    store(encoder.plan_end())
    return b"".join([*out, encoder.finish()]), encoder


def base_body(key: str, body: bytes) -> BaseBody:
    return BaseBody(key, len(body), xxhash.xxh3_128_digest(body))


def unpack(container: bytes, engine: Engine = NATIVE, bodies: list[bytes] | None = None) -> bytes:
    """bodies: among which are those that the container needs."""
    by_digest = {xxhash.xxh3_128_digest(body): body for body in bodies or []}
    out = bytearray()

    def read_base(needed: BaseRange) -> bytes:
        start, end = needed.reference.start, needed.reference.start + needed.length
        if needed.reference.number == 0:
            return bytes(out[start:end])
        index = read_tail(container, object_bytes=len(container)).index
        assert index is not None
        bases = read_bases(index.about)
        check_reference(needed, bases, frame_start=0)
        return by_digest[bases[needed.reference.number - 1].digest][start:end]

    for piece in iter_body(io.BytesIO(container), engine, read_base=read_base):
        out += piece
    return bytes(out)


def typed(encoder: Encoder) -> dict[str, tuple[str, int]]:
    """Name -> (type, bytes) of the segments with a type."""
    return {name: (element, size) for _, size, element, name, _ in encoder.segments if element != "BYTES"}


def torch_file(state: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer, **options)
    return buffer.getvalue()


def trained_state() -> dict[str, Any]:
    """Model and AdamW after a real step, with tied and viewed storages and every common type."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(300, 500), torch.nn.Linear(500, 100)).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 300).bfloat16()).float().pow(2).sum().backward()
    optimizer.step()
    base = torch.randn(20_000)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "tied": [base, base, base[100:200]],
        "view_only": torch.randn(9_000)[:10],
        "f16": torch.randn(5_000).half(),
        "f64": torch.randn(3_000, dtype=torch.float64),
        "complex": torch.randn(3_000, dtype=torch.complex64),
        "ints": {
            str(kind): torch.arange(5_000).to(kind) for kind in (torch.int8, torch.int16, torch.int32, torch.int64)
        },
        "bytes": torch.arange(5_000).to(torch.uint8),
        "bools": torch.arange(5_000) % 3 == 0,
        "empty": torch.empty(0),
        "scalar": torch.tensor(3.0),
        "step": 7,
        "text": "x" * 1000,
        "none": None,
        "float": 1e-3,
        "big": 2**200,
    }


def safetensors_file() -> bytes:
    torch.manual_seed(0)
    return save(
        {
            "layer.0.weight": torch.randn(300, 200).bfloat16(),
            "layer.0.bias": torch.randn(200),
            "layer.1.weight": torch.randn(200, 300).half(),
            "ids": torch.arange(20_000),
            "mask": torch.arange(9_000) % 2 == 0,
            "f8": torch.randn(9_000).to(torch.float8_e4m3fn),
            "empty": torch.empty(0, 3),
            "scalar": torch.tensor(1.0),
        },
        metadata={"format": "pt"},
    )


def safetensors_raw(header: Any, data: bytes) -> bytes:
    """A file with any header: text, bytes, or something for JSON."""
    raw = header if isinstance(header, bytes) else (header if isinstance(header, str) else json.dumps(header)).encode()
    return len(raw).to_bytes(8, "little") + raw + data


def normal(count: int, kind: str = "bf16", seed: int = 0) -> bytes:
    values = np.random.default_rng(seed).normal(0, 0.02, count)
    if kind == "bf16":
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return values.astype({"f16": "<f2", "f32": "<f4", "f64": "<f8"}[kind]).tobytes()


SAMPLES = {
    "torch": lambda: torch_file(trained_state()),
    "safetensors": safetensors_file,
    "noise": lambda: np.random.default_rng(0).bytes(50_000),
    "text": lambda: b"to be or not to be " * 5_000,
    "empty": lambda: b"",
    "one byte": lambda: b"x",
    "almost safetensors": lambda: b"\x10\0\0\0\0\0\0\0{nonsense",
    "almost zip": lambda: b"PK\x03\x04" + bytes(26),
}
