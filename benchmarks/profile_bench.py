"""Where the proxy's processor time goes while a checkpoint passes: samples of the running proxy by `perf`, by what they did."""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from memory_bench import Checkpoint
from results import machine, markdown_table, write_section
from shaped_bench import ACCESS_KEY, BUCKET, CALLS, MIB, SECRET_KEY, ProxyProcess, SeaweedFS, client_of, processor_s
from straight_bench import whole

SAMPLES_PER_S = 999
# The first that matches a sample's innermost frame, or for the kernel any of its frames, names what it did.
_USER = (
    ("MD5, SHA-256", re.compile("libcrypto")),
    ("CRC, XXH3", re.compile("zlib_ng|_awscrt|_xxhash")),
    ("codec", re.compile(r"_native\.")),
    ("copies, allocation", re.compile(r"libc\.so|ld-linux")),
    ("Python", re.compile("python|asyncio|_hashlib|_queue|_multidict|_struct|_datetime|\\.so")),
)
_KERNEL = (
    ("kernel: sockets", re.compile(r"tcp_|sock_|skb|inet_|ip_|net_|softirq")),
    ("kernel: files", re.compile(r"ext4|xfs_|vfs_|iomap|filemap|folio_from_iter|jbd2|page_cache")),
    ("kernel: memory", re.compile(r"page_fault|madvise|mmap|munmap|mprotect")),
    ("kernel: threads, the rest", re.compile("")),
)
GROUPS = [name for name, _ in (*_USER, *_KERNEL)] + ["unknown"]


def group_of(frames: list[str]) -> str:
    """frames: of one sample, innermost first, as `perf script` prints them."""
    if "[kernel.kallsyms]" in frames[0]:
        symbols = " ".join(frame for frame in frames if "[kernel" in frame)
        return next(name for name, pattern in _KERNEL if pattern.search(symbols))
    module = frames[0].rpartition("(")[2]
    return next((name for name, pattern in _USER if pattern.search(Path(module).name)), "unknown")


def shares(recorded: Path) -> Counter[str]:
    """Samples by group."""
    printed = subprocess.run(
        ["perf", "script", "-i", str(recorded), "-F", "ip,sym,dso"], capture_output=True, text=True, check=True
    ).stdout
    samples = (block.strip().splitlines() for block in printed.split("\n\n"))
    return Counter(group_of(frames) for frames in samples if frames)


def measure(body: bytes, folder: Path) -> dict[str, dict[str, float]]:
    """Processor seconds of the proxy a GiB, by call and group."""
    with SeaweedFS(folder) as server:
        proxy = ProxyProcess(server.endpoint, folder / "state", server.environment())
        proxy.start()
        try:
            client = client_of(proxy.endpoint, ACCESS_KEY, SECRET_KEY, read_timeout=600)
            client.create_bucket(Bucket=BUCKET)
            found = {}
            for name, call in CALLS.items():
                recorded = folder / f"{name}.perf"
                command = ["perf", "record", "-q", "-F", str(SAMPLES_PER_S), "-g", "-p", str(proxy.pid), "-o"]
                perf = subprocess.Popen([*command, str(recorded)])
                time.sleep(1)  # until it has attached itself to every thread
                before = processor_s(proxy.pid)
                call(client, "key", body)
                seconds_a_gib = (processor_s(proxy.pid) - before) / (len(body) / (1 << 30))
                perf.send_signal(signal.SIGINT)
                perf.wait()
                samples = shares(recorded)
                found[name] = {group: seconds_a_gib * samples[group] / samples.total() for group in GROUPS}
                print(name, found[name], file=sys.stderr, flush=True)
            return found
        finally:
            proxy.stop()


def table(found: dict[str, dict[str, float]]) -> str:
    rows = [
        [group, *(f"{by_group[group]:.2f}" for by_group in found.values())]
        for group in GROUPS
        if any(by_group[group] >= 0.01 for by_group in found.values())
    ]
    return markdown_table(["", *found], [*rows, ["all", *(f"{sum(one.values()):.2f}" for one in found.values())]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    if shutil.which("perf") is None:
        raise SystemExit("profile_bench.py needs `perf` (Debian: linux-perf; Amazon Linux: perf)")
    with tempfile.TemporaryDirectory() as name:
        found = measure(whole(Checkpoint(options.mib * MIB)), Path(name))
    text = (
        f"Processor seconds of the proxy a GiB, a bf16 checkpoint of {options.mib} MiB by boto3 before SeaweedFS, as fast as "
        f"it goes: `perf`, {SAMPLES_PER_S} samples a second. What the copies and hashes are for: "
        "[ADR 0016](../docs/adr/0016-copies-of-a-body.md).\n\n"
        f"{table(found)}\n\n{machine()}"
    )
    print(text)
    if not options.dry_run:
        write_section("Where the proxy's time goes", text)


if __name__ == "__main__":
    main()
