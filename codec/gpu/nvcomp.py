"""nvCOMP's coders on pages of bytes, as raw bit streams. It is imported when it is first asked for, and may well be missing.

Source: https://docs.nvidia.com/cuda/nvcomp/py_api.html, version 6; what needs a GPU was not run by us.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

import torch

from ..entropy.blocks import BLOCK_SYMBOLS
from ..errors import EngineUnavailable, FormatError

PAGE_BYTES: Final = BLOCK_SYMBOLS
# The first one with batches of carved buffers; bit streams of its ANS differ from those before.
_LEAST_MAJOR: Final = 6
_ALIGN_BYTES: Final = 16
# The widest of GDeflate's levels that a GPU is still quick at; of ANS there is one.
_OPTIONS: Final[dict[str, dict[str, int]]] = {"GDeflate": {"algorithm_type": 1}, "ANS": {}}


def load_nvcomp() -> Any:
    """The module. Raises: EngineUnavailable, which names what is missing."""
    try:
        module = importlib.import_module("nvidia.nvcomp")
    except ImportError as error:
        raise EngineUnavailable(
            f"nvCOMP: the wheel is missing ({error}): pip install 's4weights[gpu]' (nvidia-nvcomp-cu12 or -cu13)"
        ) from None
    if major_of(module) < _LEAST_MAJOR:
        raise EngineUnavailable(f"nvCOMP: expected version {_LEAST_MAJOR} or later, found {module.__version__}")
    return module


def major_of(module: Any) -> int:
    """Of its version: bit streams of ANS are those of one major version."""
    return int(str(module.__version__).partition(".")[0])


class PageCoder:
    """One algorithm. For one thread, since nvCOMP's codecs belong to the thread that made them."""

    def __init__(self, algorithm: str, module: Any = None) -> None:
        """algorithm: GDeflate or ANS. Raises: EngineUnavailable where there is no driver, GPU or wheel."""
        self._module = load_nvcomp() if module is None else module
        self.major = major_of(self._module)
        self._algorithm = algorithm
        try:
            self._codec = self._module.Codec(
                algorithm=algorithm,
                bitstream_kind=self._module.BitstreamKind.RAW,
                uncomp_chunk_size=PAGE_BYTES,
                **_OPTIONS[algorithm],
                **_stream(),
            )
        except RuntimeError as error:
            raise EngineUnavailable(
                f"nvCOMP {self._module.__version__}: no {algorithm} on this machine: {error}"
            ) from None

    def encode(self, pages: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Each page, of 1 to PAGE_BYTES bytes (uint8, 1-D, on the device), compressed.

        What it leaves unwritten is zero: otherwise memory of others would be stored, and never the same twice.
        """
        if not pages:
            return []
        given = self._carve(pages)
        most = self._room(self._codec.get_max_comp_buffer_size(self._module.as_array(given[0][: pages[0].numel()])))
        room = torch.zeros(most * len(pages), dtype=torch.uint8, device=pages[0].device)
        out = self._module.as_arrays(room, [most * k for k in range(len(pages))], [most] * len(pages))
        coded = self._codec.encode(self._arrays(given, pages), out=out)
        sizes = [int(size) for size in coded.buffer_sizes]
        return [room[most * k : most * k + size] for k, size in enumerate(sizes)]

    def decode(self, pages: Sequence[torch.Tensor], sizes: Sequence[int]) -> list[torch.Tensor]:
        """The inverse. sizes: of the pages to be. nvCOMP trusts what it reads: a checksum must have been compared before.

        Raises: FormatError.
        """
        if not pages:
            return []
        room = torch.zeros(PAGE_BYTES * len(pages), dtype=torch.uint8, device=pages[0].device)
        out = self._module.as_arrays(room, [PAGE_BYTES * k for k in range(len(pages))], list(sizes))
        try:
            made = self._codec.decode(self._arrays(self._carve(pages), pages), out=out)
            found = [int(size) for size in made.buffer_sizes]
        except (RuntimeError, ValueError) as error:
            raise FormatError(
                f"{self._algorithm} page: expected what nvCOMP {self.major} reads, found: {error}"
            ) from None
        if found != list(sizes):
            raise FormatError(f"{self._algorithm} pages: expected {list(sizes)} bytes, found {found}")
        return [room[PAGE_BYTES * k : PAGE_BYTES * k + size] for k, size in enumerate(sizes)]

    @staticmethod
    def _room(size: int) -> int:
        return -(-int(size) // _ALIGN_BYTES) * _ALIGN_BYTES

    def _carve(self, pages: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Copies that begin where nvCOMP reads well, in one buffer."""
        most = self._room(max(page.numel() for page in pages))
        buffer = torch.zeros(most * len(pages), dtype=torch.uint8, device=pages[0].device)
        for number, page in enumerate(pages):
            buffer[most * number : most * number + page.numel()] = page
        return list(buffer.view(len(pages), most))

    def _arrays(self, carved: Sequence[torch.Tensor], pages: Sequence[torch.Tensor]) -> Any:
        whole = torch.as_strided(carved[0], (len(carved) * carved[0].numel(),), (1,))
        offsets = [number * carved[0].numel() for number in range(len(carved))]
        return self._module.as_arrays(whole, offsets, [page.numel() for page in pages])


def _stream() -> dict[str, int]:
    """torch's current one, so that the work of both is in order; torch without CUDA has none."""
    return {"cuda_stream": int(torch.cuda.current_stream().cuda_stream)} if torch.cuda.is_available() else {}
