"""zipnn in a process of its own, since it can bring one down: blocks come in on stdin, seconds go out on stdout.

First a line of JSON (dtype, lengths), then the blocks, then a line a step: `encode`, `decode` or `check`.
Answers are lines of JSON: {"seconds": [...]}, {"stored_bytes": ..., "identical": ...}.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

from .blocks import reuse_buffers
from .candidate import timed


def main() -> None:
    """Answer until stdin ends."""
    # What zipnn prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    reuse_buffers()
    about = json.loads(sys.stdin.buffer.readline())
    blocks = [sys.stdin.buffer.read(length) for length in about["lengths"]]
    coder = import_module("zipnn").ZipNN(bytearray_dtype=about["dtype"], threads=1, input_format="byte")
    stored = [bytes(coder.compress(bytearray(block))) for block in blocks]
    for line in sys.stdin.buffer:
        answers.write(json.dumps(_answer(line.decode().strip(), coder, blocks, stored)) + "\n")


def _answer(step: str, coder: Any, blocks: list[bytes], stored: list[bytes]) -> dict[str, Any]:
    if step == "encode":
        return {"seconds": [_encode_s(coder, block) for block in blocks]}
    if step == "decode":
        return {"seconds": [_decode_s(coder, one) for one in stored]}
    identical = all(coder.decompress(one) == block for one, block in zip(stored, blocks, strict=True))
    return {"stored_bytes": sum(map(len, stored)), "identical": identical}


def _decode_s(coder: Any, stored: bytes) -> float:
    return timed(lambda: coder.decompress(stored))


def _encode_s(coder: Any, block: bytes) -> float:
    # It works in place on what it is given: each time a copy, outside the time.
    copy = bytearray(block)
    return timed(lambda: coder.compress(copy))


if __name__ == "__main__":
    main()
