"""Real S3 servers for tests: SeaweedFS, and moto beside it, both from PyPI."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ACCESS_KEY = "AKIASEAWEEDTESTS"
SECRET_KEY = "seaweed-secret-key"
NEXT_ACCESS_KEY = "AKIASEAWEEDNEXT"
NEXT_SECRET_KEY = "seaweed-next-secret-key"
START_S = 90.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_ports(count: int) -> list[int]:
    """SeaweedFS also listens 10,000 above each port, so all of them are below 50,000."""
    found: list[int] = []
    while len(found) < count:
        port = free_port() % 20_000 + 20_000
        with contextlib.suppress(OSError), socket.socket() as low, socket.socket() as high:
            low.bind(("127.0.0.1", port))
            high.bind(("127.0.0.1", port + 10_000))
            if port not in found:
                found.append(port)
    return found


def client_of(endpoint: str, access_key: str, secret_key: str, session_token: str | None = None, **options: Any) -> Any:
    """boto3's; options: as its Config's."""
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        aws_session_token=session_token,
        config=Config(s3={"addressing_style": "path"}, ignore_configured_endpoint_urls=True, **options),
    )


def program_path() -> Path:
    """Where SeaweedFS is, or would be: on the path, or beside this Python."""
    return Path(shutil.which("weed") or Path(sys.executable).parent / "weed")


class SeaweedFS:
    """One server in a folder, for the length of a block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = free_ports(4)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports[3]}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def users(self) -> dict[str, tuple[str, str]]:
        """Who may sign: name, access key, secret key."""
        return {"tests": (ACCESS_KEY, SECRET_KEY), "next": (NEXT_ACCESS_KEY, NEXT_SECRET_KEY)}

    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def client(self, **options: Any) -> Any:
        return client_of(self.endpoint, ACCESS_KEY, SECRET_KEY, **options)

    def __enter__(self) -> Self:
        program = str(program_path())
        master, volume, filer, s3 = self._ports
        identities = self._folder / "identities.json"
        actions = ["Admin", "Read", "List", "Tagging", "Write"]
        rows = [
            {"name": name, "credentials": [{"accessKey": access, "secretKey": secret}], "actions": actions}
            for name, (access, secret) in self.users().items()
        ]
        identities.write_text(json.dumps({"identities": rows}))
        data = self._folder / "data"
        data.mkdir()
        command = [
            *(program, "-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}"),
            *(f"-master.port={master}", f"-volume.port={volume}", "-filer", f"-filer.port={filer}"),
            *(
                "-filer.maxMB=16",
                "-s3",
                f"-s3.port={s3}",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                f"-s3.config={identities}",
            ),
            *("-s3.allowDeleteBucketNotEmpty=true", "-volume.max=2000", "-master.volumeSizeLimitMB=1024"),
            *("-volume.minFreeSpace=1", "-master.electionTimeout=1s", "-master.telemetry=false"),
        ]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        self._wait()
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        # A server that is just starting may take a request and never answer it.
        client = self.client(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1})
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            try:
                client.create_bucket(Bucket="started")
                client.put_object(Bucket="started", Key="probe", Body=b"x")
                return
            except (BotoCoreError, ClientError):
                time.sleep(0.3)
        raise AssertionError(f"SeaweedFS did not start:\n{(self._folder / 'log').read_text()[-4000:]}")

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        # It gives no space back while it runs, and several of them fill a small disk.
        shutil.rmtree(self._folder / "data", ignore_errors=True)


class Moto:
    """moto's server, which takes any signature and keeps bodies in its memory."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def client(self) -> Any:
        return client_of(self.endpoint, "moto", "moto")

    def environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": "moto", "AWS_SECRET_ACCESS_KEY": "moto", "AWS_DEFAULT_REGION": "us-east-1"}

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return self
            time.sleep(0.2)
        raise AssertionError(f"moto did not start:\n{self._log.read_text()[-4000:]}")

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
