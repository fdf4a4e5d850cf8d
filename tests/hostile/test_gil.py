"""One call of plan never keeps the other threads waiting: the event loop has to answer meanwhile."""

from __future__ import annotations

import gc
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from s4weights.codec.encode import Encoder
from tests.codec.segments.real_files import torch, torch_zip
from tests.hostile.test_parsers import pickled_zip

# A collection of garbage among millions of objects takes a tenth of a second, on a busy machine several.
MAX_WAIT_S = 1.0
MIB = 1 << 20


def header_of_tensors(count: int) -> bytes:
    members = b",".join(
        b'"layers.%d.weight":{"dtype":"BF16","shape":[16,16],"data_offsets":[%d,%d]}' % (n, 512 * n, 512 * n + 512)
        for n in range(count)
    )
    return struct.pack("<Q", len(members) + 2) + b"{" + members + b"}" + bytes(4_096)


BODIES: dict[str, Callable[[], bytes]] = {
    "a header of 200,000 tensors": lambda: header_of_tensors(200_000),
    "a header of one text": lambda: struct.pack("<Q", 32 * MIB) + b'{"__metadata__":{"x":"' + b"\xff" * 32 * MIB,
    "a pickle of 10,000 tensors": lambda: torch_zip({f"layers.{n}.weight": torch.zeros(1) for n in range(10_000)}),
    "a pickle of lists": lambda: pickled_zip(b"]q\0" + (b"(" + b"]" * 40 + b"e") * 10_000 + b"."),
    "a pickle of one text": lambda: pickled_zip(b"X" + struct.pack("<I", 120 * MIB) + b"\xff" * 120 * MIB + b"."),
    "a pickle of one number": lambda: pickled_zip(b"\x8b" + struct.pack("<I", 64 * MIB) + b"\x7f" * 64 * MIB + b"."),
    "a pickle of lines": lambda: pickled_zip((b"V" + b"\xff" * 65_000 + b"\n0") * 500 + b"N."),
    "false ends of an entry": lambda: b"PK\3\4" + struct.pack("<HHH", 20, 8, 0) + bytes(16) + b"\x08\0\0\0a/data/0" + b"PK\x07\x08" * 500_000,
}  # fmt: skip


class Heartbeat:
    """A thread that wants to run every millisecond. longest_s: that it had to wait."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def _beat(self) -> None:
        last = time.monotonic()
        while not self._ended.wait(0.001):
            now = time.monotonic()
            self.longest_s, last = max(self.longest_s, now - last), now
        self.longest_s = max(self.longest_s, time.monotonic() - last)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture
def _own_heap_aside() -> Iterator[None]:
    """What the tests before have left is not collected over and over: a server has no such heap."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_own_heap_aside")
@pytest.mark.parametrize("name", BODIES)
def test_other_threads_run_while_a_body_is_planned(name):
    body = BODIES[name]()
    encoder = Encoder()
    with Heartbeat() as heartbeat:
        encoder.plan(body)
        encoder.plan_end()
        del encoder
    assert heartbeat.longest_s < MAX_WAIT_S
