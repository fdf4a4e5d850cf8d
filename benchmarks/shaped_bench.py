"""A checkpoint straight to a real S3 server and through the proxy, in pairs, each connection to the server as fast as S3's.

Every connection to the server passes a relay that gives it so many bytes a second in each direction; and once more without.
What processors were busy with is counted by process, because others may be at work on them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from memory_bench import Checkpoint
from results import machine, markdown_table, write_section
from straight_bench import whole

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.e2e.proxy_process import ACCESS_KEY, SECRET_KEY, ProxyProcess  # noqa: E402
from tests.servers import SeaweedFS, client_of  # noqa: E402

BUCKET = "bench"
MIB = 1 << 20
JSON = Path(__file__).parent / "shaped_results.json"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Row:
    """One call, both ways. seconds, processor_s: medians by way; processor_s by process too."""

    call: str
    shaped: bool
    seconds: dict[str, float]
    processor_s: dict[str, dict[str, float]]
    ratio: float


def put_object(client: Any, key: str, body: bytes) -> None:
    client.put_object(Bucket=BUCKET, Key=key, Body=body)


def upload_fileobj(client: Any, key: str, body: bytes) -> None:
    client.upload_fileobj(io.BytesIO(body), BUCKET, key)


def get_object(client: Any, key: str, _: bytes) -> None:
    for _chunk in client.get_object(Bucket=BUCKET, Key=key)["Body"].iter_chunks(MIB):
        pass


CALLS: dict[str, Callable[[Any, str, bytes], None]] = {
    call.__name__: call for call in (put_object, upload_fileobj, get_object)
}


@contextlib.contextmanager
def relay(endpoint: str, bytes_per_s: float) -> Iterator[tuple[str, int]]:
    """Endpoint and process of a relay in front of another endpoint."""
    command = [sys.executable, "-m", "tests.shaping_relay", endpoint, str(bytes_per_s)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.terminate()


def processor_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def measure(server: SeaweedFS, body: bytes, runs: int, bytes_per_s: float | None, folder: Path) -> list[Row]:
    """Every call, both ways, runs times in turn; bytes_per_s: of each connection to the server."""
    with contextlib.ExitStack() as stack:
        endpoint, processes = server.endpoint, {"server": server.pid, "client": os.getpid()}
        if bytes_per_s is not None:
            endpoint, processes["relay"] = stack.enter_context(relay(server.endpoint, bytes_per_s))
        proxy = ProxyProcess(endpoint, folder / f"state-{bytes_per_s}", server.environment())
        proxy.start()
        stack.callback(proxy.stop)
        processes["proxy"] = proxy.pid
        clients = {
            "straight": client_of(endpoint, *server.users()["tests"], read_timeout=600),
            "through": client_of(proxy.endpoint, ACCESS_KEY, SECRET_KEY, read_timeout=600),
        }
        with contextlib.suppress(clients["straight"].exceptions.BucketAlreadyOwnedByYou):
            clients["straight"].create_bucket(Bucket=BUCKET)
        rows = []
        for name, call in CALLS.items():
            seconds: dict[str, list[float]] = {way: [] for way in clients}
            busy: dict[str, list[dict[str, float]]] = {way: [] for way in clients}
            for _ in range(runs):
                for way, client in clients.items():
                    before = {process: processor_s(pid) for process, pid in processes.items()}
                    started = time.perf_counter()
                    call(client, way, body)
                    seconds[way].append(time.perf_counter() - started)
                    busy[way].append(
                        {process: processor_s(pid) - before[process] for process, pid in processes.items()}
                    )
            rows.append(
                Row(
                    name,
                    bytes_per_s is not None,
                    {way: median(times) for way, times in seconds.items()},
                    {
                        way: {process: median(one[process] for one in times) for process in processes}
                        for way, times in busy.items()
                    },
                    median(straight / through for straight, through in zip(*seconds.values(), strict=True)),
                )
            )
            print(rows[-1], file=sys.stderr, flush=True)
        check_identical(clients["through"], "through", body)
    return rows


def check_identical(client: Any, key: str, body: bytes) -> None:
    digest = hashlib.sha256()
    for chunk in client.get_object(Bucket=BUCKET, Key=key)["Body"].iter_chunks(MIB):
        digest.update(chunk)
    if digest.digest() != hashlib.sha256(body).digest():
        raise SystemExit("what came back through the proxy is not what was sent")


def table(rows: list[Row], size: int) -> str:
    gib = size / (1 << 30)
    columns = ["", "straight MB/s", "through MB/s", "through / straight", "processor s/GiB: straight", "through"]
    cells = [
        [
            f"{row.call}, {'shaped' if row.shaped else 'as fast as it goes'}",
            *(f"{size / row.seconds[way] / 1e6:.0f}" for way in ("straight", "through")),
            f"{row.ratio:.2f}",
            *(
                ", ".join(
                    f"{name} {busy / gib:.1f}" for name, busy in row.processor_s[way].items() if busy / gib >= 0.05
                )
                for way in ("straight", "through")
            ),
        ]
        for row in rows
    ]
    return markdown_table(columns, cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--mb-per-s", type=float, default=80.0, help="of each connection to the server, in each direction"
    )
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    body = whole(Checkpoint(options.mib * MIB))
    rows = []
    for bytes_per_s in (options.mb_per_s * 1e6, None):
        with tempfile.TemporaryDirectory() as name, SeaweedFS(Path(name)) as server:
            rows += measure(server, body, options.runs, bytes_per_s, Path(name))
    text = (
        f"boto3 against SeaweedFS, a bf16 checkpoint of {options.mib} MiB, {options.runs} pairs, medians; `shaped`: each "
        f"connection to the server carries {options.mb_per_s:g} MB/s in each direction, as on S3. Client, proxy, relay and "
        "server share the processors of one machine; what each of them needed of their time is in the last columns.\n\n"
        f"{table(rows, len(body))}\n\n{machine()}"
    )
    print(text)
    if not options.dry_run:
        JSON.write_text(json.dumps({"mib": options.mib, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
        write_section("Straight and through the proxy, each connection as fast as S3's", text)


if __name__ == "__main__":
    main()
