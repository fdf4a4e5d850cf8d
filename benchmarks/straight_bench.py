"""One client straight to a real S3 server and through the proxy, in pairs in one run, everything on this machine."""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from memory_bench import Checkpoint
from results import machine, markdown_table, write_section

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.e2e.proxy_process import ProxyProcess  # noqa: E402
from tests.servers import SeaweedFS  # noqa: E402

BUCKET = "bench"
MIB = 1 << 20


def bodies(size: int) -> dict[str, bytes]:
    return {"checkpoint": whole(Checkpoint(size)), "noise": os.urandom(size)}


def whole(source: io.RawIOBase) -> bytes:
    pieces = []
    while piece := source.read(MIB):
        pieces.append(piece)
    return b"".join(pieces)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def read_whole(client: Any, key: str) -> None:
    for _ in client.get_object(Bucket=BUCKET, Key=key)["Body"].iter_chunks(MIB):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name, SeaweedFS(Path(name)) as server:
        proxy = ProxyProcess(server.endpoint, Path(name) / "state", server.environment())
        proxy.start()
        split = ProxyProcess(server.endpoint, Path(name) / "split", {**server.environment(), "S4W_SPLIT_READS": "1"})
        split.start()
        clients = {"straight": server.client(), "through": proxy.client()}
        clients["straight"].create_bucket(Bucket=BUCKET)
        for kind, body in bodies(options.mib * MIB).items():
            works: dict[str, tuple[dict[str, Any], Callable[[Any, str], object]]] = {
                "upload_fileobj": (
                    clients,
                    lambda client, key, body=body: client.upload_fileobj(io.BytesIO(body), BUCKET, key),
                ),
                "get_object": (clients, read_whole),
            }
            if kind == "noise":  # which passes through, in a bucket without versions
                works["get_object, S4W_SPLIT_READS=1"] = (clients | {"through": split.client()}, read_whole)
            for work, (ways, call) in works.items():
                times: dict[str, list[float]] = {way: [] for way in ways}
                for _ in range(options.runs):
                    for way, client in ways.items():
                        times[way].append(seconds(partial(call, client, f"{kind}-{way}")))
                straight, through = (median(times[way]) for way in ways)
                speeds = [f"{options.mib / 1024 / one:.2f}" for one in (straight, through)]
                rows.append([f"{kind}, {work}", *speeds, f"{straight / through:.2f}"])
        split.stop()
        proxy.stop()
    columns = [f"{options.mib} MiB", "straight GiB/s", "through GiB/s", "through / straight"]
    text = (
        "boto3 against SeaweedFS on loopback, straight and through the proxy; medians of pairs. Client, proxy and server share "
        "two cores, so every cycle of the proxy's is taken from the others: the worst case for it.\n\n"
        f"{markdown_table(columns, rows)}\n\n{machine()}"
    )
    print(text)
    if not options.dry_run:
        write_section("Straight and through the proxy", text)


if __name__ == "__main__":
    main()
