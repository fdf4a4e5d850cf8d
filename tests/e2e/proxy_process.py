"""The real `s4weights serve` as a child process, to be started, asked, killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.servers import client_of, free_port

ACCESS_KEY = "AKIAE2ETESTS"
SECRET_KEY = "e2e-secret-key"
# A busy machine takes half a minute for what is done in two seconds; a proxy that ends is seen at once.
START_S = 120.0


class ProxyProcess:
    """upstream: as for --upstream; environment: what the proxy needs to reach it."""

    def __init__(self, upstream: str, state_dir: Path, environment: dict[str, str] | None = None) -> None:
        self.port = free_port()
        self.health_port = free_port()
        self.upstream = upstream
        self.state_dir = state_dir
        self.log = state_dir.parent / f"{state_dir.name}.log"
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "S4W_"))}
        environment |= {"S4W_ACCESS_KEY": ACCESS_KEY, "S4W_SECRET_KEY": SECRET_KEY, **self._environment}
        command = [
            *(sys.executable, "-m", "s4weights.cli", "serve", "--upstream", self.upstream),
            *("--listen", f"127.0.0.1:{self.port}", "--health", f"127.0.0.1:{self.health_port}"),
            *("--state", str(self.state_dir)),
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self._wait_ready()

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise AssertionError(f"the proxy ended with {self._process.returncode}:\n{self.log.read_text()}")
            if self.health("readyz")[0] == 200:
                return
            time.sleep(0.1)
        raise AssertionError(f"the proxy was not ready after {START_S} s:\n{self.log.read_text()}")

    def health(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def kill(self) -> None:
        """As a machine that loses power would: no handler runs."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(timeout=30)

    def client(self, **options: Any) -> Any:
        return client_of(
            self.endpoint,
            ACCESS_KEY,
            SECRET_KEY,
            signature_version="s3v4",
            retries={"total_max_attempts": options.pop("attempts", 1)},
            read_timeout=60,
            **options,
        )

    def client_environment(self) -> dict[str, str]:
        """For client programs."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
