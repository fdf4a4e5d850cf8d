"""Listings of a thousand entries: straight from a real S3 server, and through the proxy with its cache cold and warm."""

from __future__ import annotations

import argparse
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from memory_bench import Checkpoint
from results import machine, markdown_table, write_section
from straight_bench import seconds

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.e2e.proxy_process import ProxyProcess  # noqa: E402
from tests.servers import SeaweedFS  # noqa: E402

BUCKET = "bench"
BODY_BYTES = 128 << 10


def lister(client: Any, entries: int) -> Callable[[], Any]:
    url = client.generate_presigned_url("list_objects_v2", {"Bucket": BUCKET, "MaxKeys": 1_000}, ExpiresIn=3_600)

    def work() -> None:
        with urllib.request.urlopen(url) as answer:
            assert answer.read().count(b"<Contents>") == entries

    return work


def fill(client: Any, entries: int) -> None:
    body = Checkpoint(BODY_BYTES).read(BODY_BYTES)

    def put(number: int) -> None:
        client.put_object(Bucket=BUCKET, Key=f"run/step-{number:06}/model.safetensors", Body=body)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(entries)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, SeaweedFS(Path(name)) as server:
        straight = server.client(max_pool_connections=16, signature_version="s3v4")
        straight.create_bucket(Bucket=BUCKET)
        proxy = ProxyProcess(server.endpoint, Path(name) / "state", server.environment())
        proxy.start()
        through = proxy.client(max_pool_connections=16)
        fill(through, options.entries)
        shown = straight.list_objects_v2(Bucket=BUCKET)["Contents"][0]["Size"]
        assert shown < BODY_BYTES == through.list_objects_v2(Bucket=BUCKET, MaxKeys=1)["Contents"][0]["Size"]
        ways = {"straight": lister(straight, options.entries), "through": lister(through, options.entries)}
        cold = []
        for _ in range(3):
            proxy.stop()
            for file in proxy.state_dir.glob("listings.sqlite*"):
                file.unlink()
            proxy.start()
            through.head_bucket(Bucket=BUCKET)
            cold.append(seconds(ways["through"]))
        proxy.stop()
        proxy.start()
        through.head_bucket(Bucket=BUCKET)
        restarted = seconds(ways["through"])
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(options.runs):
            for way, work in ways.items():
                times[way].append(seconds(work))
        proxy.stop()
    base = median(times["straight"])
    rows = [
        [label, f"{value * 1e3:.1f}", f"{value / base:.2f}"]
        for label, value in (
            ("straight", base),
            ("through, warm", median(times["through"])),
            ("through, the first after a restart", restarted),
            ("through, cold: every entry is looked into", median(cold)),
        )
    ]
    text = (
        f"ListObjectsV2 of {options.entries} encoded checkpoints in one page, from the request to the answer's last byte; "
        f"SeaweedFS and proxy on this machine; "
        f"medians of {options.runs} pairs.\n\n"
        f"{markdown_table(['one page', 'ms', 'times straight'], rows)}\n\n{machine()}"
    )
    print(text)
    if not options.dry_run:
        write_section("Listings", text)


if __name__ == "__main__":
    main()
