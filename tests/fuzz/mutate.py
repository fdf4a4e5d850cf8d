"""Changed copies of seeds: what a fuzzer without coverage feeds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

_NUMBERS: Final = (0, 1, 2, 63, 64, 127, 128, 255, 4095, 4096, 65_535, 65_536, (1 << 31) - 1, (1 << 32) - 1, 1 << 63)


class Mutator:
    """The same seeds and number give the same mutants."""

    def __init__(self, seeds: Sequence[bytes], number: int) -> None:
        self._seeds = seeds
        self._random = random.Random(number)

    def next(self) -> bytes:
        data = bytearray(self._random.choice(self._seeds))
        for _ in range(self._random.randint(1, 5)):
            self._change(data)
        return bytes(data)

    def _change(self, data: bytearray) -> None:
        draw = self._random
        # Structure lies at the ends.
        near = min(len(data), 256)
        at = draw.choice(
            (draw.randrange(len(data) + 1), draw.randrange(near + 1), len(data) - draw.randrange(near + 1))
        )
        run = draw.choice((1, 2, 4, 8, draw.randrange(64)))
        match draw.randrange(8):
            case 0:
                data[at : at + 1] = bytes((draw.randrange(256),))
            case 1 if at < len(data):
                data[at] ^= 1 << draw.randrange(8)
            case 2:
                width = draw.choice((1, 2, 4, 8))
                data[at : at + width] = (draw.choice(_NUMBERS) % (1 << 8 * width)).to_bytes(width, "little")
            case 3 if at < len(data):
                data[at] = (data[at] + draw.choice((-2, -1, 1, 2))) % 256
            case 4:
                del data[at : at + run]
            case 5:
                data[at:at] = draw.randbytes(run)
            case 6:
                del data[at:]
            case _:
                other = draw.choice(self._seeds)
                start = draw.randrange(len(other) + 1)
                data[at : at + run] = other[start : start + run]
