"""What `make demo` runs: a real checkpoint to a local bucket and back, through plain boto3 and through torch.save.

A small GPT is trained for a few steps; the proxy runs as a child process on demo/buckets; nothing leaves this machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import s3fs
import torch
from boto3.s3.transfer import TransferConfig
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo"
BUCKETS = DEMO / "buckets"
BUCKET = "training"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIADEMODEMODEMO", "AWS_SECRET_ACCESS_KEY": "demo-secret-key"}
STEPS = [30]
START_S = 30.0

sys.path.insert(0, str(ROOT / "benchmarks"))
from train_gpt import save_checkpoints  # noqa: E402


@dataclass(frozen=True)
class Result:
    """One object there and back. stored: bytes of its file in the bucket."""

    way: str
    key: str
    logical: int
    stored: int
    write_s: float
    read_s: float
    verified: bool


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def proxy() -> Iterator[str]:
    """The proxy as a child process; yields its endpoint."""
    port, health = free_port(), free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S4W_"))} | KEYS
    command = [
        *(sys.executable, "-m", "s4weights.cli", "serve", "--upstream", str(BUCKETS)),
        *("--listen", f"127.0.0.1:{port}", "--health", f"127.0.0.1:{health}", "--state", str(DEMO / "state")),
    ]
    with (DEMO / "proxy.log").open("wb") as log:
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_until_ready(child, health)
        yield f"http://127.0.0.1:{port}"
        with urllib.request.urlopen(f"http://127.0.0.1:{health}/status") as answer:
            status = json.load(answer)
        if status["frame_fallbacks"]:
            raise SystemExit(f"{status['frame_fallbacks']} frames failed their round trip")
    finally:
        child.terminate()
        child.wait(timeout=30)


def wait_until_ready(child: subprocess.Popen[bytes], health: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and child.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=2):
            return
        time.sleep(0.1)
    raise SystemExit(f"the proxy did not start:\n{(DEMO / 'proxy.log').read_text()}")


def stored_bytes(key: str) -> int:
    return (BUCKETS / BUCKET / key).stat().st_size


def by_boto3(client: Any, path: Path, *, multipart: bool) -> Result:
    """put_object and get_object, or upload_file in parts and download_file."""
    key = f"{'upload_file' if multipart else 'put_object'}/{path.name}"
    data = path.read_bytes()
    started = time.monotonic()
    if multipart:
        client.upload_file(str(path), BUCKET, key, Config=TransferConfig(multipart_threshold=8 << 20))
    else:
        client.put_object(Bucket=BUCKET, Key=key, Body=data)
    written = time.monotonic()
    back = io.BytesIO()
    client.download_fileobj(BUCKET, key, back)
    read = time.monotonic()
    same = hashlib.sha256(back.getvalue()).digest() == hashlib.sha256(data).digest()
    way = "boto3 upload_file" if multipart else "boto3 put_object"
    return Result(way, key, len(data), stored_bytes(key), written - started, read - written, same)


def by_torch_save(fs: s3fs.S3FileSystem, path: Path) -> Result:
    """torch.save and torch.load, unmodified, on an s3:// path."""
    state = torch.load(path, weights_only=True)
    key = f"torch_save/{path.name}"
    started = time.monotonic()
    with fs.open(f"s3://{BUCKET}/{key}", "wb") as file:
        torch.save(state, file)
    written = time.monotonic()
    with fs.open(f"s3://{BUCKET}/{key}", "rb") as file:
        back = torch.load(io.BytesIO(file.read()), weights_only=True)
    read = time.monotonic()
    expected = io.BytesIO()
    torch.save(state, expected)
    same_bytes = fs.cat_file(f"s3://{BUCKET}/{key}") == expected.getvalue()
    same = same_bytes and equal(state, back)
    return Result(
        "torch.save, s3fs",
        key,
        len(expected.getvalue()),
        stored_bytes(key),
        written - started,
        read - written,
        same,
    )


def equal(left: Any, right: Any) -> bool:
    """Whether two states hold the same values, bit by bit."""
    if isinstance(left, torch.Tensor):
        same_kind = left.dtype == right.dtype and left.shape == right.shape
        return same_kind and torch.equal(
            left.contiguous().view(-1).view(torch.uint8), right.contiguous().view(-1).view(torch.uint8)
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def print_results(console: Console, results: list[Result]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("written by", "object"):
        table.add_column(name)
    for name in ("logical bytes", "stored bytes", "ratio", "write s", "read s"):
        table.add_column(name, justify="right")
    table.add_column("verified")
    for one in results:
        ratio = f"{one.logical / one.stored:.3f}"
        times = f"{one.write_s:.2f}", f"{one.read_s:.2f}"
        verified = "identical" if one.verified else "DIFFERENT"
        table.add_row(one.way, one.key, str(one.logical), str(one.stored), ratio, *times, verified)
    console.print(table)


def main() -> int:
    console = Console(width=130)
    shutil.rmtree(BUCKETS, ignore_errors=True)
    BUCKETS.mkdir(parents=True)
    started = time.monotonic()
    console.print("Training a small GPT (bf16 model, fp32 master weights and AdamW state) ...")
    checkpoint, weights = save_checkpoints(DEMO / "checkpoints", "tiny", ["mixed"], STEPS)
    console.print(f"... {time.monotonic() - started:.1f} s. Saving its checkpoint through the proxy:\n")
    with proxy() as endpoint:
        options = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        client = boto3.client(
            "s3",
            **options,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        client.create_bucket(Bucket=BUCKET)
        fs = s3fs.S3FileSystem(
            key=KEYS["AWS_ACCESS_KEY_ID"],
            secret=KEYS["AWS_SECRET_ACCESS_KEY"],
            client_kwargs=options,
            skip_instance_cache=True,
        )
        results = [
            by_boto3(client, weights, multipart=False),
            by_boto3(client, checkpoint, multipart=True),
            by_torch_save(fs, checkpoint),
        ]
    print_results(console, results)
    console.print(
        f"\nThe bucket is {BUCKETS.relative_to(ROOT)}/{BUCKET}: look into it, or read an object without the proxy:\n"
        f"  .venv/bin/s4weights inspect {(BUCKETS / BUCKET / results[0].key).relative_to(ROOT)}\n"
        "To keep a proxy running, here or in front of S3 (--upstream s3://REGION):\n"
        f"  export AWS_ACCESS_KEY_ID={KEYS['AWS_ACCESS_KEY_ID']} AWS_SECRET_ACCESS_KEY={KEYS['AWS_SECRET_ACCESS_KEY']}\n"
        f"  .venv/bin/s4weights serve --upstream {BUCKETS.relative_to(ROOT)}\n"
        "and point any client at it:\n"
        "  export AWS_ENDPOINT_URL=http://127.0.0.1:9000",
        soft_wrap=True,
        highlight=False,
    )
    return 0 if all(one.verified for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
