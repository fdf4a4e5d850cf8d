"""Make the golden GDeflate pages with NVIDIA's own compressor, libdeflate_gdeflate_* of nvCOMP, at every level.

Usage: python -m tests.golden.make_gdeflate LIBRARY. LIBRARY: libnvcomp_cpu.so.6 of the wheel nvidia-libnvcomp-cu13
(`pip download --no-deps nvidia-libnvcomp-cu13==6.0.0.12`, unpacked); it is needed here only. Inputs come from integers, so that they need
not be kept. A file that exists is never written again.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.golden.make_frames import bell, noise

FILE = Path(__file__).parent / "gdeflate.zip"
LEVELS = range(13)
SIZES = (1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 200, 255, 256, 500, 1_000, 2_000, 4_100)
PAGE = 65_536
_EPOCH = (1980, 1, 1, 0, 0, 0)


def _bytes(numbers: np.ndarray) -> bytes:
    return (numbers % 256).astype(np.uint8).tobytes()


def _rare(n: int, seed: int) -> np.ndarray:
    """Zeros, and one in eight of few values: what is left of a plane after a delta."""
    return np.where(noise(n, seed, 8) == 0, 1 + bell(n, seed + 1), 0)


def _steep(n: int) -> np.ndarray:
    """Each value half as often as the one before: long codes."""
    return np.array([int(one) & -int(one) for one in noise(n, 20, 1 << 20) | 1 << 20]).astype(np.int64) % 251


FAMILIES: dict[str, Callable[[int], bytes]] = {
    "zeros": lambda n: bytes(n),
    "ramp": lambda n: _bytes(np.arange(n)),
    "text": lambda n: (b"never show a wrong byte; never lose a checkpoint; " * (n // 50 + 1))[:n],
    "noise": lambda n: _bytes(noise(n, 1, 256)),
    "bell": lambda n: _bytes(120 + bell(n, 2)),
    "two": lambda n: _bytes(noise(n, 7, 2) * 255),
    "rare": lambda n: _bytes(_rare(n, 8)),
    "steep": lambda n: _bytes(_steep(n)),
    "period": lambda n: _bytes(noise(37, 14, 256)[np.arange(n) % 37]),
    "runs": lambda n: _bytes(np.repeat(noise(n // 9 + 1, 15, 5), 9)[:n]),
    "low bits": lambda n: _bytes(noise(n, 16, 16) << 4 | 1),
    "growing": lambda n: _bytes(np.arange(n) // 7 * np.arange(n)),
}
# Whole pages, and a match from further back than 32,768 bytes.
LONG: dict[str, Callable[[], bytes]] = {
    "zeros of a page": lambda: bytes(PAGE),
    "rare of a page": lambda: _bytes(_rare(PAGE, 17) * (noise(PAGE, 18, 16) == 0)),
    "far": lambda: _bytes(noise(400, 19, 256)) + bytes(50_000) + _bytes(noise(400, 19, 256)),
    "almost a page": lambda: (b"abcdefgh" * 8_192)[:-1],
}


def inputs() -> dict[str, bytes]:
    """By name; at least 200."""
    short = {f"{name} {n}": make(n) for name, make in FAMILIES.items() for n in SIZES}
    return {**short, **{name: make() for name, make in LONG.items()}}


class _OutPage(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


class Compressor:
    """nvCOMP's own for the CPU."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._library.libdeflate_alloc_gdeflate_compressor.restype = ctypes.c_void_p
        for name in ("libdeflate_gdeflate_compress_bound", "libdeflate_gdeflate_compress"):
            getattr(self._library, name).restype = ctypes.c_size_t
        self._handles = [ctypes.c_void_p(self._library.libdeflate_alloc_gdeflate_compressor(level)) for level in LEVELS]

    def page(self, data: bytes, level: int) -> bytes:
        """data: at most a page."""
        handle, pages = self._handles[level], ctypes.c_size_t()
        bound = self._library.libdeflate_gdeflate_compress_bound(
            handle, ctypes.c_size_t(len(data)), ctypes.byref(pages)
        )
        assert pages.value == 1
        room = ctypes.create_string_buffer(bound)
        out = _OutPage(ctypes.addressof(room), bound)
        done = self._library.libdeflate_gdeflate_compress(
            handle, data, ctypes.c_size_t(len(data)), ctypes.byref(out), ctypes.c_size_t(1)
        )
        assert done == out.nbytes > 0, f"level {level}, {len(data)} bytes"
        return room.raw[: out.nbytes]


def main(library: str) -> None:
    if FILE.exists():
        return
    compressor = Compressor(library)
    members: dict[str, bytes] = {}
    index: dict[str, list[str]] = {}
    for name, data in inputs().items():
        pages = [compressor.page(data, level) for level in LEVELS]
        index[name] = [hashlib.sha256(page).hexdigest()[:16] for page in pages]
        members.update(zip(index[name], pages, strict=True))
    members["index.json"] = json.dumps(index, indent=0).encode()
    with zipfile.ZipFile(FILE, "w") as archive:
        for member in sorted(members):
            info = zipfile.ZipInfo(member, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, members[member])


if __name__ == "__main__":
    main(sys.argv[1])
