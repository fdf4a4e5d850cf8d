"""The device, and rooms with canaries around them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_CAN_RUN = importlib.util.find_spec("triton") is not None and (INTERPRETED or torch.cuda.is_available())

# Neither a GPU nor the interpreter: nothing to run, and importing the kernels would fix which of the two it is.
collect_ignore_glob = [] if _CAN_RUN else ["test_*.py"]


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cpu" if INTERPRETED else "cuda")


@pytest.fixture(scope="session")
def launcher(device):
    from s4weights.codec.gpu.launcher import Launcher

    return Launcher(device)


@pytest.fixture(scope="session")
def codec(device):
    from s4weights.codec.gpu.frame_codec import TritonFrameCodec

    return TritonFrameCodec(device)


@pytest.fixture
def rooms(device) -> Iterator[Rooms]:
    """Afterwards nothing around any of them has changed."""
    made = Rooms(device)
    yield made
    made.check()


class Rooms:
    """Bytes on the device between others that nothing may touch."""

    MARGIN = 256

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._all: list[tuple[torch.Tensor, int]] = []

    def empty(self, size: int, offset: int = 0) -> torch.Tensor:
        """offset: from an aligned place."""
        whole = torch.full((self.MARGIN + offset + size + self.MARGIN,), 0xA5, dtype=torch.uint8, device=self._device)
        self._all.append((whole, offset + size))
        return whole[self.MARGIN + offset : self.MARGIN + offset + size]

    def holding(self, data: bytes, offset: int = 0) -> torch.Tensor:
        """The bytes, between others."""
        room = self.empty(len(data), offset)
        if data:
            room.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        return room

    def check(self) -> None:
        for whole, size in self._all:
            assert bool((whole[: self.MARGIN] == 0xA5).all()), "written in front of a room"
            assert bool((whole[self.MARGIN + size :] == 0xA5).all()), "written behind a room"
