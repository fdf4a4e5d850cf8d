"""A real `serve` that asks stand-ins, and what it must look like where it is refused."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.proxy.entitlement.keys import Files
from tests.servers import free_port

CODE = "1abc2defghijklm3nopqrs4tu"
START_S = 30.0


class Nursery:
    """A process that has loaded the product, and forks those that serve."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.proxy.entitlement.serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, order: dict[str, Any] | int) -> int | None:
        """A new process's id, or an old one's exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        return cast("int | None", json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=20)


class Service:
    """One process with both of its ports."""

    def __init__(self, nursery: Nursery, folder: Path, address: str, variables: dict[str, str]) -> None:
        self._nursery = nursery
        self._exit_code: int | None = None
        (folder / "buckets/training").mkdir(parents=True, exist_ok=True)
        self.port, self.health = free_port(), free_port()
        self._log = folder / "serve.log"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "AWS_ACCESS_KEY_ID": "AKIATEST",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_CA_BUNDLE": str(folder / "ca.pem"),
            "S4W_STATE": str(folder / "state"),
            "S4W_PRODUCT_CODE": CODE,
            "S4W_ENTITLEMENT_RETRY_S": "0",
            **variables,
        }
        upstream = ["--upstream", str(folder / "buckets")]
        ports = ["--listen", f"127.0.0.1:{self.port}", "--health", f"127.0.0.1:{self.health}"]
        files = {"asset_tag": str(folder / "asset-tag"), "pod_token": str(folder / "pod-token")}
        order = {"arguments": [*upstream, *ports], "variables": environment, "log": str(self._log)}
        started = nursery.ask(order | {"addresses": {"metadata": address, **files}})
        assert started
        self._process = started

    @property
    def log(self) -> str:
        return self._log.read_text()

    def end(self) -> int:
        """SIGTERM, or more; its exit code."""
        deadline = time.monotonic() + START_S
        if not self.has_ended():
            os.kill(self._process, signal.SIGTERM)
        while not self.has_ended():
            if time.monotonic() > deadline:
                os.kill(self._process, signal.SIGKILL)
            time.sleep(0.02)
        return cast(int, self._exit_code)

    def has_ended(self) -> bool:
        if self._exit_code is None:
            self._exit_code = self._nursery.ask(self._process)
        return self._exit_code is not None

    def is_open(self) -> bool:
        """Whether anybody listens where S3 is spoken."""
        with socket.socket() as wire:
            return wire.connect_ex(("127.0.0.1", self.port)) == 0

    def readyz(self) -> str:
        """What the health port says, empty while nobody says anything."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=5) as answer:
                return answer.read().decode().strip()
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode().strip()
        except OSError:
            return ""

    def wait_for(self, told: Callable[[str], bool]) -> str:
        """What the health port says once it fits."""
        deadline = time.monotonic() + START_S
        while not told(text := self.readyz()):
            assert not self.has_ended(), self.log
            assert not text.startswith("not entitled: "), text
            assert time.monotonic() < deadline, text + self.log
            time.sleep(0.05)
        return text

    def assert_refused(self, why: str, exit_code: int) -> None:
        """The S3 port never opens, the health port says why, and the process ends with this code."""
        opened = []
        text = self.wait_for(lambda text: opened.append(self.is_open()) or text.startswith("not entitled: "))  # type: ignore[func-returns-value]
        assert why in text
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/healthz", timeout=5) as answer:
            assert answer.status == 200
        assert not any(opened)
        assert not self.is_open()
        assert self.end() == exit_code
        assert "S3 on" not in self.log
        assert "Traceback" not in self.log
        assert why in self.log

    def assert_serves(self) -> None:
        """It is ready, and ends in order."""
        self.wait_for(lambda text: text == "ready")
        assert self.is_open()
        assert self.end() == 0


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files.write(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def start(nursery: Nursery, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Start the service; it is gone at the end of the test."""
    started: list[Service] = []

    def begin(address: str, **variables: str) -> Service:
        started.append(Service(nursery, tmp_path, address, variables))
        return started[-1]

    yield begin
    for one in started:
        one.end()
