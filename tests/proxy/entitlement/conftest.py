"""A real `serve` that asks stand-ins, and what it must look like where it is refused."""

from __future__ import annotations

import contextlib
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

import pytest

from tests.proxy.entitlement.keys import Files
from tests.servers import free_port

CODE = "1abc2defghijklm3nopqrs4tu"
START_S = 30.0


class Service:
    """One process with both of its ports."""

    def __init__(self, folder: Path, arguments: list[str], variables: dict[str, str]) -> None:
        (folder / "buckets/training").mkdir(parents=True, exist_ok=True)
        self.port, self.health = free_port(), free_port()
        self._log = folder / "serve.log"
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "S4W_", "ECS_")) and "proxy" not in name.lower()
        }
        environment |= {
            "HOME": str(folder),
            "AWS_ACCESS_KEY_ID": "AKIATEST",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_CA_BUNDLE": str(folder / "ca.pem"),
            "S4W_STATE": str(folder / "state"),
            "S4W_PRODUCT_CODE": CODE,
            "S4W_ENTITLEMENT_RETRY_S": "0",
            **variables,
        }
        environment = {name: value for name, value in environment.items() if value}
        command = [
            sys.executable,
            "-m",
            "tests.proxy.entitlement.serve",
            *arguments,
            "--upstream",
            str(folder / "buckets"),
        ]
        ports = ["--listen", f"127.0.0.1:{self.port}", "--health", f"127.0.0.1:{self.health}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([*command, *ports], env=environment, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def end(self) -> int:
        """SIGTERM; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout=20)
        finally:
            self._process.kill()
            self._process.wait()

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
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline and not text.startswith("not entitled"), text + self.log
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


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Start the service; it is gone at the end of the test."""
    started: list[Service] = []

    def begin(address: str, **variables: str) -> Service:
        arguments = [address, str(tmp_path / "asset-tag"), str(tmp_path / "pod-token")]
        started.append(Service(tmp_path, arguments, variables))
        return started[-1]

    yield begin
    for one in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.end()
