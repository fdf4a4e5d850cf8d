"""Peak memory of the server while objects of 1, 2 and 4 GiB go in by multipart and come back, default budget."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import boto3
import numpy as np
from botocore.config import Config
from results import machine, markdown_table, write_section

GIB = 1 << 30
BLOCK = 16 << 20
KEYS = ("AKIABENCHMARK", "benchmark-secret")


class Checkpoint(io.RawIOBase):
    """A safetensors file of one bf16 tensor, made block by block: never whole in memory.

    Blocks repeat after 8, so that making them does not take longer than sending them; no coder looks that far.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        body = size - 4096
        header = json.dumps({"weight": {"dtype": "BF16", "shape": [body // 2], "data_offsets": [0, body]}}).encode()
        self._header = (4088).to_bytes(8, "little") + header.ljust(4088)
        self._size = size
        self._at = 0
        self._blocks: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._block(self._at // BLOCK)
        start = self._at % BLOCK
        piece = block[start : min(start + len(buffer), start + self._size - self._at)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _block(self, number: int) -> bytes:
        seed = number % 8 if number else -1
        if seed not in self._blocks:
            rng = np.random.default_rng(seed + 1)
            words = rng.standard_normal(BLOCK // 2, dtype=np.float32) * np.float32(0.02)
            data = (words.view(np.uint32) >> 16).astype("<u2").tobytes()
            self._blocks[seed] = data if number else self._header + data[4096:]
        return self._blocks[seed]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """The proxy on a fresh directory."""

    def __init__(self, folder: Path) -> None:
        (folder / "buckets" / "bench").mkdir(parents=True)
        self.folder = folder
        self.port, health = free_port(), free_port()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("S4W_", "AWS_"))}
        environment |= {"S4W_ACCESS_KEY": KEYS[0], "S4W_SECRET_KEY": KEYS[1], "S4W_LOG_LEVEL": "WARNING"}
        command = [
            *(sys.executable, "-m", "s4weights.cli", "serve", "--upstream", str(folder / "buckets")),
            *(
                "--listen",
                f"127.0.0.1:{self.port}",
                "--health",
                f"127.0.0.1:{health}",
                "--state",
                str(folder / "state"),
            ),
        ]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        for _ in range(300):
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=2):
                return
            time.sleep(0.1)
        raise SystemExit("the proxy did not start")

    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) * 1024

    def client(self) -> boto3.client:
        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name="us-east-1",
            aws_access_key_id=KEYS[0],
            aws_secret_access_key=KEYS[1],
            config=Config(ignore_configured_endpoint_urls=True),
        )


def measure(size: int) -> list[str]:
    folder = Path(tempfile.mkdtemp(prefix="s4weights-memory-"))
    server = Server(folder)
    try:
        client = server.client()
        idle = server.peak_bytes()
        started = time.monotonic()
        client.upload_fileobj(Checkpoint(size), "bench", "model.safetensors")
        written = time.monotonic()
        after_put = server.peak_bytes()
        digest, expected = hashlib.sha256(), hashlib.sha256()
        for chunk in client.get_object(Bucket="bench", Key="model.safetensors")["Body"].iter_chunks(1 << 20):
            digest.update(chunk)
        read = time.monotonic()
        source = Checkpoint(size)
        while chunk := source.read(1 << 20):
            expected.update(chunk)
        stored = (folder / "buckets/bench/model.safetensors").stat().st_size
        return [
            f"{size / GIB:g} GiB",
            f"{idle / 2**20:.0f}",
            f"{after_put / 2**20:.0f}",
            f"{server.peak_bytes() / 2**20:.0f}",
            f"{size / stored:.3f}",
            f"{size / GIB / (written - started):.2f}",
            f"{size / GIB / (read - written):.2f}",
            "yes" if digest.digest() == expected.digest() else "NO",
        ]
    finally:
        server.process.terminate()
        server.process.wait()
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, nargs="+", default=[1, 2, 4])
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    columns = [
        "object",
        "RSS idle, MiB",
        "peak after PUT",
        "peak after GET",
        "ratio",
        "PUT GiB/s",
        "GET GiB/s",
        "identical",
    ]
    table = markdown_table(columns, [measure(int(gib * GIB)) for gib in options.gib])
    print(table)
    if not options.dry_run:
        text = (
            "boto3 `upload_fileobj` (parts of 8 MiB, ten threads) and one `get_object`, the default budget, a local "
            "directory as the bucket; client, SHA-256 of both sides and server share the machine.\n\n"
            f"{table}\n\n{machine()}"
        )
        write_section("Memory of the server", text)


if __name__ == "__main__":
    main()
