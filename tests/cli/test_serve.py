"""`s4weights serve` as a process: one line when ready, an orderly end, named refusals."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

READY = re.compile(r"s4weights: (http://127\.0\.0\.1:(\d+)) in front of .*; health on port (\d+)\n")


@pytest.fixture
def serve(tmp_path):
    """Start a proxy with the given flags and variables; it is gone at the end of the test."""
    started = []
    (tmp_path / "buckets" / "training").mkdir(parents=True)

    def start(*flags: str, **variables: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S4W_"))}
        environment |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path), **variables}
        command = [sys.executable, "-m", "s4weights.cli", "serve", "--upstream", str(tmp_path / "buckets")]
        ports = ["--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--state", str(tmp_path / "state")]
        process = subprocess.Popen(
            [*command, *ports, *flags], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> tuple[str, int, int]:
    """The endpoint, its port and the health port of the line that says so."""
    assert process.stdout is not None
    line = process.stdout.readline()
    match = READY.fullmatch(line)
    assert match, line + process.communicate()[1]
    return match[1], int(match[2]), int(match[3])


def test_serves_until_sigterm_and_logs_json_lines_without_secrets(serve):
    process = serve(S4W_LOG_FORMAT="json")
    endpoint, _, health = ready(process)
    request = urllib.request.Request(f"{endpoint}/training/k?X-Amz-Signature-Not=1", data=b"data", method="PUT")
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200
        identity = answer.headers["x-amz-request-id"]
    with urllib.request.urlopen(f"{endpoint}/training/k?tool=1&X-Amz-Security-Token=hushhush", timeout=10) as answer:
        assert answer.read() == b"data"
    with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=10) as answer:
        assert answer.status == 200
    process.send_signal(signal.SIGTERM)
    rest, log = process.communicate(timeout=20)
    assert (process.returncode, rest) == (0, "")
    records = [json.loads(line) for line in log.splitlines()]
    assert all({"time", "level", "logger", "request_id", "message"} <= record.keys() for record in records)
    accesses = [record for record in records if record["logger"] == "s4weights.access"]
    assert accesses[0]["request_id"] == identity != accesses[1]["request_id"]
    assert (accesses[0]["bytes_in"], accesses[1]["bucket"]) == (4, "training")
    assert [(one["operation"], one["status"]) for one in accesses] == [("PutObject", 200), ("GetObject", 200)]
    assert "X-Amz-Security-Token=********" in accesses[1]["path"]
    assert "hushhush" not in log


def test_a_request_under_way_is_finished_before_the_end(serve, tmp_path):
    process = serve()
    _, port, _ = ready(process)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as wire:
        wire.sendall(b"PUT /training/late HTTP/1.1\r\nhost: x\r\ncontent-length: 8\r\n\r\nhalf")
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        wire.sendall(b"done")
        assert wire.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    assert process.wait(timeout=20) == 0
    assert (tmp_path / "buckets" / "training" / "late").read_bytes() == b"halfdone"


def test_the_end_does_not_wait_for_a_silent_client(serve, tmp_path):
    process = serve(S4W_DRAIN_S="0.5")
    _, port, _ = ready(process)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as wire:
        wire.sendall(b"PUT /training/never HTTP/1.1\r\nhost: x\r\ncontent-length: 8\r\n\r\nhalf")
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    assert not (tmp_path / "buckets" / "training" / "never").exists()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--listen", "0.0.0.0:0"], "expected a loopback address where clients need not sign"),
        (["--engine", "abacus"], "engine: expected auto, native, gpu, reference, found 'abacus'"),
        (["--upstream", "/no/such/folder"], "/no/such/folder"),
    ],
)
def test_refusals_to_start_are_named_without_a_traceback(serve, flags, text):
    process = serve(*flags)
    output, log = process.communicate(timeout=20)
    assert (process.returncode, output) == (78, "")
    assert text in log
    assert "Traceback" not in log


@pytest.mark.parametrize("place", ["afile", "afile/below", "/proc/x"])
def test_a_state_directory_that_cannot_be_is_named_with_its_setting(serve, tmp_path, place):
    (tmp_path / "afile").write_bytes(b"")
    process = serve("--state", str(tmp_path / place))
    output, log = process.communicate(timeout=20)
    assert (process.returncode, output) == (78, "")
    assert "state_dir: expected a directory that can be made and written" in log
    assert str(tmp_path / place) in log
    assert "--state or S4W_STATE_DIR" in log


def test_that_nobody_has_to_sign_is_said(serve):
    process = serve()
    ready(process)
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=20)
    assert log.count("nobody has to sign") == 1
    process = serve(S4W_ACCESS_KEY="AKIASOMEBODY", S4W_SECRET_KEY="secret")
    ready(process)
    process.send_signal(signal.SIGTERM)
    assert "nobody has to sign" not in process.communicate(timeout=20)[1]


@pytest.mark.parametrize("setting", ["listen", "health"])
def test_a_port_that_is_taken_is_named(serve, setting):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = serve(f"--{setting}", address)
        _, log = process.communicate(timeout=20)
    assert process.returncode == 78
    assert f"{setting}: cannot listen on {address}: " in log
    assert f"--{setting} or S4W_{setting.upper()}" in log


def test_systemd_is_told(serve, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
        wire.bind(str(tmp_path / "notify"))
        wire.settimeout(20)
        process = serve(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="150000")
        endpoint, _, _ = ready(process)
        assert wire.recv(4096).decode().startswith(f"READY=1\nSTATUS=S3 on {endpoint}, upstream ")
        assert wire.recv(4096) == b"WATCHDOG=1"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        last = b""
        while last != b"STOPPING=1\nSTATUS=stopping":
            last = wire.recv(4096)
