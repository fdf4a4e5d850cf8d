"""64 clients at once: memory of the proxy, how long a HEAD takes beside straight, and listings of 1,000 entries."""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from memory_bench import Checkpoint
from results import machine, markdown_table, write_section

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.e2e.proxy_process import ProxyProcess  # noqa: E402
from tests.servers import SeaweedFS  # noqa: E402

BUCKET = "load"
KIB, MIB = 1 << 10, 1 << 20
SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
ENTRIES = 1_000
PAUSE_S = 0.05


def whole(size: int) -> bytes:
    source, pieces = Checkpoint(size), []
    while piece := source.read(MIB):
        pieces.append(piece)
    return b"".join(pieces)


def peak_mib(proxy: ProxyProcess) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{proxy.pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


class Worker(threading.Thread):
    """One client: writes and reads bodies of mixed size, and compares them."""

    def __init__(self, client: Any, number: int, bodies: list[bytes], ends_s: float) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._number = number
        self._bodies = bodies
        self._ends_s = ends_s
        self.moved = 0
        self.calls = 0
        self.fault = ""

    def run(self) -> None:
        choice = random.Random(self._number)
        try:
            while time.monotonic() < self._ends_s:
                # The smaller the likelier, as in a bucket; all of them at some time.
                body = choice.choices(self._bodies, [1 / (number + 1) for number in range(len(self._bodies))])[0]
                key = f"{self._number}/{len(body)}"
                self._client.put_object(Bucket=BUCKET, Key=key, Body=body)
                digest = hashlib.sha256()
                for chunk in self._client.get_object(Bucket=BUCKET, Key=key)["Body"].iter_chunks(MIB):
                    digest.update(chunk)
                if digest.digest() != hashlib.sha256(body).digest():
                    self.fault = f"{key}: other bytes came back"
                self.moved += 2 * len(body)
                self.calls += 2
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"


class Heads(threading.Thread):
    """HEADs straight and through in turn, while it lasts."""

    def __init__(self, clients: dict[str, Any], ends_s: float) -> None:
        super().__init__(daemon=True)
        self._clients = clients
        self._ends_s = ends_s
        self.times: dict[str, list[float]] = {way: [] for way in clients}

    def run(self) -> None:
        while time.monotonic() < self._ends_s:
            for way, client in self._clients.items():
                self.times[way].append(seconds(lambda client=client: client.head_object(Bucket=BUCKET, Key="head")))
            time.sleep(PAUSE_S)


def seconds(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def head_row(name: str, times: dict[str, list[float]]) -> list[str]:
    shares = [f"{1000 * percentile(times[way], share):.0f}" for share in (0.5, 0.99) for way in ("straight", "through")]
    return [name, str(len(times["through"])), *shares]


def heads(clients: dict[str, Any], length_s: float) -> dict[str, list[float]]:
    quiet = Heads(clients, time.monotonic() + length_s)
    quiet.run()
    return quiet.times


def load(proxy: ProxyProcess, clients: dict[str, Any], count: int, length_s: float) -> tuple[list[Worker], Heads]:
    bodies = [whole(size) for size in SIZES]
    ends_s = time.monotonic() + length_s
    workers = [Worker(proxy.client(attempts=4), number, bodies, ends_s) for number in range(count)]
    beside = Heads(clients, ends_s)
    for thread in (*workers, beside):
        thread.start()
    for thread in (*workers, beside):
        thread.join()
    return workers, beside


def listings(proxy: ProxyProcess, clients: dict[str, Any]) -> list[list[str]]:
    """Of containers, each of which has to be looked into once."""
    body = whole(64 * KIB)
    for number in range(ENTRIES):
        clients["through"].put_object(Bucket=BUCKET, Key=f"list/{number:04}", Body=body)
    proxy.stop()
    proxy.start()

    def listed(way: str) -> list[int]:
        rows = clients[way].list_objects_v2(Bucket=BUCKET, Prefix="list/")["Contents"]
        return [row["Size"] for row in rows]

    cold = seconds(lambda: listed("through"))
    assert listed("through") == [len(body)] * ENTRIES
    warm, straight = (median(seconds(lambda way=way: listed(way)) for _ in range(9)) for way in ("through", "straight"))
    return [
        ["straight", f"{1000 * straight:.0f}", "1.0"],
        ["through, warm", f"{1000 * warm:.0f}", f"{warm / straight:.1f}"],
        ["through, cold", f"{1000 * cold:.0f}", f"{cold / straight:.1f}"],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--memory-mib", type=int, default=768)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, SeaweedFS(Path(name)) as server:
        environment = {**server.environment(), "S4W_MEMORY_BYTES": f"{options.memory_mib}M", "S4W_LOG_LEVEL": "ERROR"}
        proxy = ProxyProcess(server.endpoint, Path(name) / "state", environment)
        proxy.start()
        clients = {"straight": server.client(), "through": proxy.client(attempts=4)}
        clients["straight"].create_bucket(Bucket=BUCKET)
        clients["through"].put_object(Bucket=BUCKET, Key="head", Body=whole(MIB))
        idle_mib = peak_mib(proxy)
        quiet = heads(clients, min(10.0, options.seconds))
        workers, beside = load(proxy, clients, options.clients, options.seconds)
        peak = peak_mib(proxy)
        rows = listings(proxy, clients)
        proxy.stop()
    faults = [worker.fault for worker in workers if worker.fault]
    moved, calls = sum(worker.moved for worker in workers) / MIB, sum(worker.calls for worker in workers)
    columns = ["HEAD, ms", "calls", "straight p50", "through p50", "straight p99", "through p99"]
    table = markdown_table(columns, [head_row("alone", quiet), head_row("under load", beside.times)])
    text = (
        f"{options.clients} boto3 clients in one process, each of which writes and reads back checkpoints of 64 KiB to "
        f"64 MiB for {options.seconds:g} s: {calls} calls, {moved:.0f} MiB, {len(faults) or 'no'} failures. Memory of the "
        f"proxy: {idle_mib:.0f} MiB idle, {peak:.0f} MiB at most, with a budget of {options.memory_mib} MiB for bodies. "
        "Clients, proxy and SeaweedFS share the machine; the HEADs are sent straight and through in turn.\n\n"
        f"{table}\n\n{markdown_table([f'listing of {ENTRIES} containers', 'ms', 'by straight'], rows)}\n\n{machine()}"
    )
    print(text)
    if faults:
        raise SystemExit("\n".join(faults))
    if not options.dry_run:
        write_section("Load", text)


if __name__ == "__main__":
    main()
