"""Hours in minutes: clients of all kinds, some of whom vanish, over a network that fails; what the proxy holds must not grow.

Every body that comes back is compared, and every object that was acknowledged is there at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from memory_bench import Checkpoint
from results import machine, markdown_table, write_section

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.e2e.faults.relay import Relay  # noqa: E402
from tests.e2e.faults.script import Fault, Kind, Rule, refused  # noqa: E402
from tests.e2e.proxy_process import ProxyProcess  # noqa: E402
from tests.servers import SeaweedFS  # noqa: E402

BUCKET = "soak"
MIB = 1 << 20
KEYS = 6
SAMPLE_S = 5.0
SETTINGS = {
    "S4W_UPSTREAM_SILENCE_S": "10",
    "S4W_UPSTREAM_RETRY_S": "30",
    "S4W_LOG_LEVEL": "ERROR",
}
CHANCES = {
    Fault(Kind.RESET_BEFORE): 0.01,
    Fault(Kind.LOST_ANSWER): 0.01,
    Fault(Kind.RESET_IN_REQUEST): 0.01,
    Fault(Kind.TRUNCATED): 0.005,
    Fault(Kind.STALL): 0.002,
    Fault(Kind.STALL_IN_ANSWER): 0.002,
    refused(503, "SlowDown", 1): 0.01,
    refused(500, "InternalError"): 0.01,
}
# What may be held more at the end than after the first fifth: memory of the allocator's, connections that are kept.
MAY_GROW = {"RSS, MiB": 48, "descriptors": 24, "tasks": 24, "state files": 24, "open uploads": 24}


def checkpoints() -> list[bytes]:
    """Bodies of 0.5 to 24 MiB: stored as one object, and in parts."""
    found = []
    for size in (MIB // 2, 3 * MIB, 12 * MIB, 24 * MIB):
        source, pieces = Checkpoint(size), []
        while piece := source.read(MIB):
            pieces.append(piece)
        found.append(b"".join(pieces))
    return [*found, random.Random(5).randbytes(7 * MIB), random.Random(6).randbytes(10_000)]


@dataclass
class Tally:
    """What the clients did, and what went wrong that must not."""

    done: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str) -> None:
        with self.lock:
            self.done[name] = self.done.get(name, 0) + 1


class Client(threading.Thread):
    """Works on keys of its own, and knows what may be there: the last acknowledged body, or those tried since."""

    def __init__(self, number: int, proxy: ProxyProcess, bodies: list[bytes], tally: Tally, ends_s: float) -> None:
        super().__init__(daemon=True)
        self._random = random.Random(number)
        self._proxy = proxy
        self._client = proxy.client(attempts=4)
        self._bodies = bodies
        self._tally = tally
        self._ends_s = ends_s
        self.may_be: dict[str, set[int | None]] = {f"{number}/{one}": {None} for one in range(KEYS)}

    def run(self) -> None:
        acts = [self.put] * 5 + [self.upload] * 3 + [self.get] * 6 + [self.part_of] * 4
        acts += [self.list, self.delete, self.copy, self.vanish, self.vanish, self.leave]
        while time.monotonic() < self._ends_s:
            act = self._random.choice(acts)
            key = self._random.choice(list(self.may_be))
            try:
                act(key)
                self._tally.count(act.__name__)
            except (ClientError, BotoCoreError, OSError):
                with self._tally.lock:
                    self._tally.refused += 1
            except Exception as error:
                self._tally.wrong.append(f"{act.__name__} {key}: {type(error).__name__}: {error}")

    def _write(self, key: str, call: Any) -> None:
        chosen = self._random.randrange(len(self._bodies))
        self.may_be[key] |= {chosen}  # from now on, also where no answer comes
        call(self._bodies[chosen])
        self.may_be[key] = {chosen}

    def put(self, key: str) -> None:
        self._write(key, lambda body: self._client.put_object(Bucket=BUCKET, Key=key, Body=body))

    def upload(self, key: str) -> None:
        def in_parts(body: bytes) -> None:
            upload = {"Bucket": BUCKET, "Key": key}
            upload["UploadId"] = self._client.create_multipart_upload(**upload)["UploadId"]
            parts = []
            for number, at in enumerate(range(0, len(body), 5 * MIB), 1):
                etag = self._client.upload_part(**upload, PartNumber=number, Body=body[at : at + 5 * MIB])["ETag"]
                parts.append({"PartNumber": number, "ETag": etag})
            self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})

        self._write(key, in_parts)

    def get(self, key: str) -> None:
        self.compare(key, 0, None)

    def part_of(self, key: str) -> None:
        first = self._random.randrange(9_000)
        self.compare(key, first, first + self._random.randrange(1 + 3 * MIB))

    def compare(self, key: str, first: int, last: int | None) -> None:
        asked = {} if last is None else {"Range": f"bytes={first}-{last}"}
        try:
            found: bytes | None = self._client.get_object(Bucket=BUCKET, Key=key, **asked)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            found = None
        end = None if last is None else last + 1
        possible = [None if one is None else self._bodies[one][first:end] for one in self.may_be[key]]
        if found not in possible:
            size = "nothing" if found is None else f"{len(found)} bytes"
            self._tally.wrong.append(f"{key} from {first}: found {size}, expected one of {len(possible)} bodies")

    def list(self, key: str) -> None:
        rows = self._client.list_objects_v2(Bucket=BUCKET, Prefix=key.split("/")[0] + "/").get("Contents", [])
        for row in rows:
            sizes = [0 if one is None else len(self._bodies[one]) for one in self.may_be[row["Key"]]]
            if row["Size"] not in sizes:
                self._tally.wrong.append(f"listing of {row['Key']}: {row['Size']} bytes, expected {sizes}")

    def delete(self, key: str) -> None:
        self.may_be[key] |= {None}
        self._client.delete_object(Bucket=BUCKET, Key=key)
        self.may_be[key] = {None}

    def copy(self, key: str) -> None:
        target = self._random.choice(list(self.may_be))
        if target == key:
            return
        self.may_be[target] |= self.may_be[key]
        try:
            self._client.copy_object(Bucket=BUCKET, Key=target, CopySource={"Bucket": BUCKET, "Key": key})
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            return
        self.may_be[target] = self.may_be[key] - {None}

    def vanish(self, key: str) -> None:
        """Begin a PUT or a GET, and hang up."""
        call = self._random.choice(["put_object", "get_object"])
        url = urlsplit(self._client.generate_presigned_url(call, Params={"Bucket": BUCKET, "Key": key}))
        chosen = self._random.randrange(len(self._bodies))
        body = self._bodies[chosen] if call == "put_object" else b""
        sent = body[: self._random.randrange(len(body))] if body else b""
        with socket.create_connection(("127.0.0.1", self._proxy.port), timeout=30) as connection:
            head = f"{call[:3].upper()} {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + sent)
            if not body:
                connection.recv(1 + self._random.randrange(MIB))

    def leave(self, key: str) -> None:
        """Begin an upload, send a part, and forget it."""
        upload = {"Bucket": BUCKET, "Key": key}
        upload["UploadId"] = self._client.create_multipart_upload(**upload)["UploadId"]
        self._client.upload_part(**upload, PartNumber=1, Body=self._random.choice(self._bodies))


def records(state: Path, kind: str) -> list[Path]:
    return list((state / "uploads").glob(f"*.{kind}"))


def sample(proxy: ProxyProcess, straight: Any) -> dict[str, float]:
    """What is held now. Uploads whose creation was never answered wait until they are old: so many as answers were lost."""
    doubtful = len(records(proxy.state_dir, "asked"))
    text = proxy.health("status")[1]
    resident = int(Path(f"/proc/{proxy.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "RSS, MiB": resident / MIB,
        "descriptors": len(os.listdir(f"/proc/{proxy.pid}/fd")),
        "tasks": json.loads(text)["tasks"] if text else 0,
        "state files": sum(len(files) for _, _, files in os.walk(proxy.state_dir)) - doubtful,
        "open uploads": max(0, len(straight.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])) - doubtful),
    }


def watch(proxy: ProxyProcess, straight: Any, ends_s: float) -> list[dict[str, float]]:
    samples = []
    while time.monotonic() < ends_s:
        time.sleep(SAMPLE_S)
        with contextlib.suppress(ClientError, BotoCoreError, ValueError):
            samples.append(sample(proxy, straight))
    return samples


def grown(samples: list[dict[str, float]]) -> tuple[list[list[str]], list[str]]:
    """Rows of the table: medians of each fifth; and what grew from the second to the last."""
    edges = [number * len(samples) // 5 for number in range(6)]
    rows, faults = [], []
    for name, allowed in MAY_GROW.items():
        values = [one[name] for one in samples]
        fifths = [median(values[first:last] or values[-1:]) for first, last in itertools.pairwise(edges)]
        rows.append([name, *(f"{value:.0f}" for value in fifths), f"{max(values):.0f}"])
        if fifths[-1] > fifths[1] + allowed:
            faults.append(f"{name} grew from {fifths[1]:.0f} to {fifths[-1]:.0f}")
    return rows, faults


def settle(proxy: ProxyProcess, straight: Any, upload_age_s: float) -> list[str]:
    """With a healthy network, and all clients gone: uploads that nobody ended are ended. Returns what is left."""
    deadline = time.monotonic() + 3 * upload_age_s + 60
    while True:
        open_keys = [row["Key"] for row in straight.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])]
        # Those that nobody was told of stay until they are old, and are not forgotten.
        doubtful = [json.loads(path.read_text())["key"] for path in records(proxy.state_dir, "asked")]
        left = sorted(key for key in open_keys if key not in doubtful)
        if not left and not records(proxy.state_dir, "json"):
            return []
        if time.monotonic() > deadline:
            return [f"upload of {key} is left open" for key in left] or ["records of uploads are left"]
        time.sleep(2)


def soak(minutes: float, clients: int, upload_age_s: float = 60.0) -> tuple[list[list[str]], Tally, int, list[str]]:
    """upload_age_s: after which an idle upload is ended.

    Returns the table's rows, what was done, the faults of the network, and what must not be.
    """
    tally = Tally()
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(SeaweedFS(Path(name)))
        relay = stack.enter_context(Relay(server.endpoint))
        straight = server.client()
        straight.create_bucket(Bucket=BUCKET)
        environment = {**server.environment(), **SETTINGS, "S4W_UPLOAD_MAX_AGE_S": str(upload_age_s)}
        proxy = ProxyProcess(relay.endpoint, Path(name) / "state", environment)
        proxy.start()
        stack.callback(proxy.stop)
        rules = [
            relay.script.add(Rule(fault, target=f"/{BUCKET}/", times=1 << 60, chance=chance))
            for fault, chance in CHANCES.items()
        ]
        ends_s = time.monotonic() + 60 * minutes
        bodies = checkpoints()
        workers = [Client(number, proxy, bodies, tally, ends_s) for number in range(clients)]
        for worker in workers:
            worker.start()
        samples = watch(proxy, straight, ends_s)
        for worker in workers:
            worker.join()
        relay.script.clear()
        for worker in workers:
            for key in worker.may_be:
                worker.compare(key, 0, None)
        left = settle(proxy, straight, upload_age_s)
        rows, faults = grown(samples)
    return rows, tally, sum(rule.hits for rule in rules), [*faults, *left, *tally.wrong]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    rows, tally, hits, faults = soak(options.minutes, options.clients)
    done = ", ".join(f"{count} {name}" for name, count in sorted(tally.done.items()))
    text = (
        f"{options.minutes:g} minutes, {options.clients} clients before SeaweedFS, through a relay that broke {hits} requests: "
        f"resets, stalls, lost answers, 500, 503, truncated bodies. Calls that went well: {done}; {tally.refused} ended with "
        "an error after the client's own repetitions. Vanished clients (`vanish`) and abandoned uploads (`leave`) are "
        f"among them. Wrong bytes or objects, uploads left open: {len(faults) or 'none'}.\n\n"
        f"{markdown_table(['held', *(f'fifth {number}' for number in range(1, 6)), 'most'], rows)}\n\n{machine()}"
    )
    print(text)
    if faults:
        raise SystemExit("\n".join(faults))
    if not options.dry_run:
        write_section("Soak with faults", text)


if __name__ == "__main__":
    main()
