"""Requests as real clients sent them, one a line in `corpus/CLIENT.jsonl`, and how they are sent again.

Bodies are not kept: each is made of slices of four bodies that are the same on every machine, and of what lies between them.
Upload ids and tokens, which every run has others of, are found in the answers and put where the client put them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import quote

import numpy as np
from safetensors.numpy import save

from tests.e2e.differential import Answer, Request

CORPUS: Final = Path(__file__).parent / "corpus"
PART: Final = 5 << 20
# Elements of an answer that a client sends back.
_GIVEN: Final = re.compile(rb"<(UploadId|NextContinuationToken)>([^<]+)</")
_SLICE_BYTES: Final = 256


def checkpoint(seed: int, size: int) -> bytes:
    """About so many bytes of bf16 weights, out of integers alone, so that every machine makes the same."""
    words = np.frombuffer(Random(seed).randbytes(size // 2 * 2), np.uint16)
    return bytes(save({"weight": (words & 0x807F) | (0x3C00 + ((words >> 7) % 5 << 7)).astype(np.uint16)}))


BODIES: Final = {
    "small.safetensors": checkpoint(1, 1_500_000),
    "small noise.bin": Random(2).randbytes(1_500_000),
    "large.safetensors": checkpoint(3, 2 * PART + 1_000_000),
    "large noise+ö.bin": Random(4).randbytes(2 * PART + 12_345),
}


@dataclass(frozen=True)
class Recorded:
    """target: below the bucket, as it was sent. headers: without those that a signature is made of.

    body: texts in base64, and [name, start, length] of a body. gives: what its answer gave, by the name that later targets
    have for it.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: list[str | tuple[str, int, int]]
    gives: dict[str, str]

    @classmethod
    def of(cls, request: Request, answer: bytes, known: dict[str, str]) -> Recorded:
        """known: what earlier answers gave, by its name; that of this one is added."""
        gives = {}
        for element, value in _GIVEN.findall(answer):
            gives[element.decode()] = known.setdefault(value.decode(), f"given-{len(known)}")
        target = request.path
        for value, name in known.items():
            target = target.replace(quote(value, safe=""), f"{{{name}}}")
        return cls(request.method, target, request.headers, pieces(request.body), gives)

    def request(self, bucket: str, known: dict[str, str]) -> Request:
        """As it is sent to a bucket. known: what earlier answers gave, by its name."""
        target = self.target
        for name, value in known.items():
            target = target.replace(f"{{{name}}}", quote(value, safe=""))
        headers = {name: value.replace("{bucket}", bucket) for name, value in self.headers.items()}
        body = b"".join(
            base64.b64decode(one) if isinstance(one, str) else BODIES[one[0]][one[1] : one[1] + one[2]]
            for one in self.body
        )
        return Request(self.method, target, headers, body)

    def learn(self, answer: Answer, known: dict[str, str]) -> None:
        """Keep what an answer gave."""
        found = {element.decode(): value.decode() for element, value in _GIVEN.findall(answer.body)}
        known |= {name: found[element] for element, name in self.gives.items() if element in found}


def pieces(body: bytes) -> list[str | tuple[str, int, int]]:
    """What a body is made of."""
    made: list[str | tuple[str, int, int]] = []
    at = 0
    while at < len(body):
        found = _slice(body, at) if len(body) - at >= _SLICE_BYTES else None
        if found is not None:
            made.append(found)
            at += found[2]
            continue
        # To the next chunk of a body in chunks, or to its end.
        line = body.find(b"\r\n", at, at + _SLICE_BYTES)
        end = line + 2 if line >= 0 else len(body)
        made.append(base64.b64encode(body[at:end]).decode())
        at = end
    return made


def _slice(body: bytes, at: int) -> tuple[str, int, int] | None:
    start = body[at : at + _SLICE_BYTES]
    for name, whole in BODIES.items():
        place = whole.find(start)
        if place >= 0:
            length = min(len(whole) - place, len(body) - at)
            low = _SLICE_BYTES
            # Equal bytes are a prefix: look for its end.
            while low < length:
                middle = (low + length + 1) // 2
                low, length = (
                    (middle, length) if body[at : at + middle] == whole[place : place + middle] else (low, middle - 1)
                )
            return name, place, length
    return None


def load(path: Path) -> Iterator[Recorded]:
    """The requests of one client, in order."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        row["body"] = [one if isinstance(one, str) else tuple(one) for one in row["body"]]
        yield Recorded(**row)


def dump(path: Path, requests: list[Recorded]) -> None:
    path.write_text("".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in requests), encoding="utf-8")
