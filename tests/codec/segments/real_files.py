"""One small file of each format, made by the library that owns it."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gguf
import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save

QUANTISED = gguf.GGMLQuantizationType.Q8_0


def torch_zip(state: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer, **options)
    return buffer.getvalue()


def torch_legacy(state: Any, **options: Any) -> bytes:
    return torch_zip(state, _use_new_zipfile_serialization=False, **options)


def training_state(width: int = 60) -> dict[str, Any]:
    """Model and AdamW after a step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, 5)).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, width).bfloat16()).float().pow(2).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 7}


class Scripted(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(width, 2 * width)
        self.narrow = torch.nn.Parameter(torch.randn(width, width).half())
        self.register_buffer("steps", torch.arange(2 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x) + self.narrow.sum() + self.steps.sum()


def torch_script(width: int = 120, **options: Any) -> bytes:
    torch.manual_seed(0)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        torch.jit.save(torch.jit.script(Scripted(width)), buffer, **options)
    return buffer.getvalue()


def distcp(*, safetensors: bool = False) -> bytes:
    """What one rank of torch.distributed.checkpoint writes: archives, then perhaps one safetensors file."""
    torch.manual_seed(0)
    state = {f"layer.{number}": torch.randn(30, 90).bfloat16() for number in range(3)}
    options = {"serialization_format": dcp.filesystem.SerializationFormat.SAFETENSORS} if safetensors else {}
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer = dcp.FileSystemWriter(folder, thread_count=1, **options)
        dcp.save({**state, "moments": torch.randn(3_000), "step": 7}, storage_writer=writer, no_dist=True)
        paths = [path for path in sorted(Path(folder).iterdir()) if path.name != ".metadata"]
        return b"".join(path.read_bytes() for path in paths)


def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "f64": random.normal(size=(30, 40)),
        "layer/big": random.normal(size=(50, 20)).astype(">f4"),
        "fortran": np.asfortranarray(random.normal(size=(20, 30)).astype("<f2")),
        "complex": random.normal(size=(7, 9)).astype(np.complex64),
        "bools": random.normal(size=900) > 0,
        "text": np.array(["a", "bb"]),
        "objects": np.array([{}, None], dtype=object),
        "after": np.arange(500),
        "scalar": np.array(3.0),
        "empty": np.zeros((0, 3)),
    }


class OneWay(io.RawIOBase):
    """A file that cannot be sought in, such as a pipe: zipfile writes data descriptors to it."""

    def __init__(self) -> None:
        self.written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.written += data
        return len(data)


def npz(*, one_way: bool = False, compressed: bool = False) -> bytes:
    file = OneWay() if one_way else io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays())
    return bytes(file.written) if isinstance(file, OneWay) else file.getvalue()


def npy(*values: np.ndarray, **options: Any) -> bytes:
    buffer = io.BytesIO()
    for value in values:
        np.save(buffer, value, **options)
    return buffer.getvalue()


def gguf_file(*, big_endian: bool = False, alignment: int | None = None) -> bytes:
    random = np.random.default_rng(0)
    normal = random.normal(size=(30, 64)).astype("f4")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        order = gguf.GGUFEndian.BIG if big_endian else gguf.GGUFEndian.LITTLE
        writer = gguf.GGUFWriter(path, "llama", endianess=order)
        if alignment is not None:
            writer.add_custom_alignment(alignment)
        writer.add_uint32("llama.block_count", 1)
        writer.add_array("tokenizer.ggml.tokens", [f"token {number}" for number in range(3_000)])
        writer.add_array("tokenizer.ggml.scores", [0.5] * 3_000)
        writer.add_tensor("f32", normal)
        writer.add_tensor("f16", normal.astype("f2"))
        bf16 = (normal.view("u4") >> 16).astype("u2").view("u1")
        if not big_endian:
            writer.add_tensor("bf16", bf16, raw_dtype=gguf.GGMLQuantizationType.BF16)
            writer.add_tensor("q8_0", gguf.quants.quantize(normal, QUANTISED), raw_dtype=QUANTISED)
        writer.add_tensor("f64", normal.astype("f8"))
        writer.add_tensor("i32", np.arange(900, dtype="i4"))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def safetensors_file() -> bytes:
    torch.manual_seed(0)
    tensors = {f"blocks.{number}.weight": torch.randn(20, 30).bfloat16() for number in range(40)}
    return save({**tensors, "ids": torch.arange(200), "empty": torch.empty(0, 3)}, metadata={"format": "pt"})
