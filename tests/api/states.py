"""States that torch.save takes, and whether two of them are the same."""

from __future__ import annotations

from typing import Any

import torch


def odd_state() -> dict[str, Any]:
    base = torch.arange(4000, dtype=torch.float32)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Linear(32, 64))
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    schedule.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "view": base[10:20],
        "transposed": base.view(40, 100).t(),
        "shared": [base, base],
        "parameter": torch.nn.Parameter(torch.randn(3, 5)),
        "sparse": torch.eye(50).to_sparse(),
        "csr": torch.eye(50).to_sparse_csr(),
        "quantized": torch.quantize_per_tensor(torch.randn(100), 0.1, 0, torch.qint8),
        "bool": torch.rand(1000) > 0.5,
        "complex": torch.randn(300, dtype=torch.complex64),
        "bf16": torch.randn(5000).bfloat16(),
        "float8": torch.randn(5000).to(torch.float8_e4m3fn),
        "empty": torch.empty(0, 7),
        "scalar": torch.tensor(3.5),
        "nested": {"a": [1, 2.5, None, ("x", {"y": True})]},
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        if (type(one), one.dtype, one.shape, one.layout) != (type(other), other.dtype, other.shape, other.layout):
            return False
        if one.layout is not torch.strided:
            return same(one.to_dense(), other.to_dense())
        if one.is_quantized:
            return same(one.int_repr(), other.int_repr()) and one.q_scale() == other.q_scale()
        return one.stride() == other.stride() and bits(one) == bits(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def bits(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().resolve_conj().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
