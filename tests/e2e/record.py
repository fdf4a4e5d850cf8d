"""Records what the clients of `clients/catalogue.py` send: `python -m tests.e2e.record [CLIENT...]` writes corpus/*.jsonl.

Each client does what tests/e2e/clients makes it do, straight before SeaweedFS; a relay in between writes down its requests.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, Final

from tests.e2e.clients.catalogue import PROGRAMS, Program
from tests.e2e.clients.operations import Bodies, Body, Run
from tests.e2e.clients.worker import Worker
from tests.e2e.conftest import BUCKET
from tests.e2e.differential import Request
from tests.e2e.recorded import BODIES, CORPUS, Recorded, dump
from tests.e2e.relay import Relay
from tests.servers import ACCESS_KEY, SECRET_KEY, SeaweedFS

# Made anew by whoever sends a request again, or of the connection.
_DROPPED: Final = frozenset(
    {"authorization", "host", "connection", "x-amz-date", "amz-sdk-invocation-id", "amz-sdk-request", "content-length"}
    | {"x-amz-security-token", "accept-encoding", "traceparent", "date", "user-agent", "x-amz-user-agent"}
    | {"transfer-encoding"}
)
_WRITTEN: Final = 's4weights_request_seconds_count{operation="PutObject",status="200"} 1'
# Of a body that a client made up itself, as it would stand in the corpus.
_LITERAL_BYTES: Final = 16 << 10
_SIGNED_CHUNKS: Final = "STREAMING-AWS4-HMAC-SHA256"


class Recorder(Relay):
    """requests: those of the bucket, in the order of their answers."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.lock = Lock()
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.requests: list[Recorded] = []
        self.known: dict[str, str] = {}
        self.left_out: set[str] = set()

    def answered(self, request: Request, status: int, content: bytes) -> None:
        if not request.path.startswith(f"/{BUCKET}") or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        kept = {name: value for name, value in request.headers.items() if name not in _DROPPED}
        if "x-amz-copy-source" in kept:
            kept["x-amz-copy-source"] = re.sub(rf"^(/?){BUCKET}/", r"\1{bucket}/", kept["x-amz-copy-source"])
        below = Request(request.method, request.path.removeprefix(f"/{BUCKET}"), kept, request.body)
        with self.lock:
            recorded = Recorded.of(below, content, self.known)
            if _cannot_be_sent_again(recorded):
                self.left_out.add(_key(recorded))
            self.requests.append(recorded)

    def kept(self) -> list[Recorded]:
        """Without all that is about an object of which a request is left out."""
        return [one for one in self.requests if not _key(one) or _key(one) not in self.left_out]


def _key(recorded: Recorded) -> str:
    return recorded.target.partition("?")[0].strip("/")


def _cannot_be_sent_again(recorded: Recorded) -> bool:
    source = recorded.headers.get("x-amz-copy-source", "")
    return (
        # They would have to be signed as they were.
        "X-Amz-Signature" in recorded.target
        or _SIGNED_CHUNKS in recorded.headers.get("x-amz-content-sha256", "")
        # SeaweedFS takes a `+` for itself, and names a copied part by what is not its MD5.
        or "+" in source
        or (source and "uploadId=" in recorded.target)
        or sum(len(one) for one in recorded.body if isinstance(one, str)) > _LITERAL_BYTES
    )


def record(program: Program, relay: Recorder, client: Any, bodies: Bodies, folder: Path) -> list[Recorded]:
    """All that one client sends. Its results are looked at by tests/e2e/clients, not here."""
    environment = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": relay.endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    # `Run` looks at what a proxy stored and counted, and there is none: it is told what it wants to hear.
    proxy = SimpleNamespace(client=lambda: client, health=lambda _: (200, _WRITTEN))
    endpoint: Any = SimpleNamespace(proxy=proxy, stored_bytes=lambda key: _size(client, key) if "noise" in key else 0)
    relay.forget()
    with Worker(program, environment, BUCKET, folder) as worker:
        worker.call("version")
        for operation, said in Run(program, worker, endpoint, bodies, folder).results():
            if said:
                print(f"{program.name}: {operation}: {said[-600:]}", file=sys.stderr)
    return relay.kept()


def _size(client: Any, key: str) -> int:
    return int(client.head_object(Bucket=BUCKET, Key=key)["ContentLength"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", help="by default all")
    wanted = parser.parse_args().clients
    with tempfile.TemporaryDirectory() as name, SeaweedFS(Path(name)) as server:
        folder = Path(name) / "bodies"
        folder.mkdir()
        for body, data in BODIES.items():
            (folder / body).write_bytes(data)
            os.utime(folder / body, ((folder / body).stat().st_mtime - 600,) * 2)
        made = {body: Body("noise" if "noise" in body else "checkpoint", folder / body) for body in BODIES}
        small, large = (tuple(made[body] for body in made if body.startswith(size)) for size in ("small", "large"))
        client = server.client()
        client.create_bucket(Bucket=BUCKET)
        with Recorder(server.endpoint) as relay:
            for program in PROGRAMS:
                if wanted and program.name not in wanted:
                    continue
                scratch = Path(name) / program.module
                requests = record(program, relay, client, Bodies(folder, small, large), scratch)  # type: ignore[arg-type]
                file = CORPUS / f"{Path(program.module).stem.removesuffix('_client')}.jsonl"
                dump(file, requests)
                print(
                    f"{program.name}: {len(requests)} requests, {file.stat().st_size} bytes, {len(relay.left_out)} objects left out"
                )


if __name__ == "__main__":
    main()
