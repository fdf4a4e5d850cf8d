"""The whole service on a directory, asked over real sockets."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import boto3
import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from s4weights.proxy.app import Running, running
from s4weights.proxy.config import Settings

ACCESS_KEY, SECRET_KEY, BUCKET = "AKIATEST", "test-secret-key", "training"
_T = TypeVar("_T")


class Service:
    """A running service and ways to ask it."""

    def __init__(self, service: Running, directory: Path) -> None:
        self.running = service
        self.endpoint = service.endpoint
        self.directory = directory
        self.client = self.make_client()

    def make_client(self, secret_key: str = SECRET_KEY, **options: Any) -> Any:
        config = Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
            ignore_configured_endpoint_urls=True,
            **options,
        )
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=secret_key,
            config=config,
        )

    async def call(self, operation: str, **parameters: Any) -> Any:
        """A boto3 call, body included, off the event loop that serves it."""

        def work() -> Any:
            answer = getattr(self.client, operation)(**parameters)
            if "Body" in answer:
                answer["Body"] = io.BytesIO(answer["Body"].read())
            return answer

        return await asyncio.to_thread(work)

    async def run(self, work: Callable[[], _T]) -> _T:
        return await asyncio.to_thread(work)

    def signed(
        self, method: str, path: str, headers: dict[str, str] | None = None, *, secret: str = SECRET_KEY
    ) -> dict[str, str]:
        """The headers of a signed request; x-amz-content-sha256 as given, else UNSIGNED-PAYLOAD."""
        sent = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD", **(headers or {})}
        request = AWSRequest(method=method, url=self.endpoint + path, headers=sent)

        class Signer(S3SigV4Auth):
            def payload(self, _: AWSRequest) -> str:
                return sent["x-amz-content-sha256"]

        Signer(Credentials(ACCESS_KEY, secret), "s3", "us-east-1").add_auth(request)
        return {**dict(request.headers.items()), "host": self.endpoint.removeprefix("http://")}

    def presigned(self, method: str, path: str, expires: int = 60) -> str:
        """The path and query of a presigned URL."""
        request = AWSRequest(method=method, url=self.endpoint + path)
        S3SigV4QueryAuth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", "us-east-1", expires).add_auth(request)
        return request.url.removeprefix(self.endpoint)

    async def send(
        self, method: str, path: str, headers: dict[str, str], body: bytes = b"", *, half_close: bool = False
    ) -> tuple[int, dict[str, str], bytes]:
        """Bytes on the wire just as given; returns status, headers and body."""

        def work() -> tuple[int, dict[str, str], bytes]:
            with socket.create_connection(("127.0.0.1", self.running.port), timeout=20) as wire:
                lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
                wire.sendall(("\r\n".join(lines) + "\r\nconnection: close\r\n\r\n").encode("latin-1") + body)
                if half_close:
                    wire.shutdown(socket.SHUT_WR)
                data = bytearray()
                while piece := wire.recv(1 << 16):
                    data += piece
            head, _, rest = bytes(data).partition(b"\r\n\r\n")
            status, *fields = head.decode("latin-1").split("\r\n")
            parsed = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
            return int(status.split(" ")[1]), parsed, rest

        return await asyncio.to_thread(work)

    def stored_size(self, key: str) -> int:
        """Bytes that an object takes in the bucket itself."""
        return (self.directory / BUCKET / key).stat().st_size

    def stored(self) -> list[str]:
        """Every file in the bucket itself."""
        return sorted(str(path.relative_to(self.directory / BUCKET)) for path in (self.directory / BUCKET).rglob("*"))


@pytest.fixture
def service_settings() -> dict[str, Any]:
    """Settings of a test's own: parametrize it."""
    return {}


@pytest.fixture
async def service(tmp_path: Path, service_settings: dict[str, Any]) -> AsyncIterator[Service]:
    (tmp_path / "buckets" / BUCKET).mkdir(parents=True)
    settings = Settings(
        upstream=str(tmp_path / "buckets"),
        state_dir=tmp_path / "state",
        listen="127.0.0.1:0",
        health="127.0.0.1:0",
        domain=("s3.test",),
        **{"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, **service_settings},
    )
    async with running(settings) as one:
        yield Service(one, tmp_path / "buckets")
