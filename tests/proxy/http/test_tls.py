"""TLS on the S3 port: real clients, versions, and a chain that is replaced while the service runs."""

from __future__ import annotations

import asyncio
import datetime
import os
import socket
import ssl
import threading
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from s4weights.codec.errors import ConfigError
from s4weights.proxy.app import Running, running
from s4weights.proxy.config import Settings
from s4weights.proxy.http.tls import ServerCertificate

BUCKET = "training"
KEYS = {"aws_access_key_id": "AKIATEST", "aws_secret_access_key": "test-secret-key"}


def make_certificate(folder: Path, name: str) -> None:
    """A self-signed one for localhost, as folder/cert.pem and key.pem; each takes its place at once."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for file, data in (("key.pem", key.private_bytes(pem, *plain)), ("cert.pem", built.public_bytes(pem))):
        (folder / f"{file}.new").write_bytes(data)
        (folder / f"{file}.new").replace(folder / file)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Running]:
    (tmp_path / "buckets" / BUCKET).mkdir(parents=True)
    make_certificate(tmp_path, "first")
    settings = Settings(
        upstream=str(tmp_path / "buckets"),
        state_dir=tmp_path / "state",
        listen="127.0.0.1:0",
        health="127.0.0.1:0",
        access_key=KEYS["aws_access_key_id"],
        secret_key=KEYS["aws_secret_access_key"],
        tls_cert=str(tmp_path / "cert.pem"),
        tls_key=str(tmp_path / "key.pem"),
    )
    async with running(settings) as one:
        yield one


def handshake(port: int, authority: Path, version: ssl.TLSVersion | None = None) -> tuple[str, bytes]:
    """Version and certificate that a client gets."""
    context = ssl.create_default_context(cafile=str(authority))
    if version is not None:
        context.set_ciphers("DEFAULT@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = version
    plain = socket.create_connection(("127.0.0.1", port), timeout=20)
    with plain, context.wrap_socket(plain, server_hostname="localhost") as wire:
        return wire.version() or "", wire.getpeercert(binary_form=True) or b""


async def test_boto3_over_https_sends_an_unsigned_trailer_and_reads_its_body_back(service, tmp_path, monkeypatch):
    body, sent = os.urandom(300_000), []
    client = boto3.client(
        "s3",
        endpoint_url=f"https://localhost:{service.port}",
        region_name="us-east-1",
        verify=str(tmp_path / "cert.pem"),
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        **KEYS,
    )
    client.meta.events.register(
        "before-send.s3.PutObject", lambda request, **_: sent.append(request.headers["X-Amz-Content-SHA256"])
    )

    def work() -> Any:
        client.put_object(Bucket=BUCKET, Key="k", Body=body)
        upload = client.create_multipart_upload(Bucket=BUCKET, Key="parts")
        assert upload["UploadId"]
        part = {"Bucket": BUCKET, "Key": "parts", "UploadId": upload["UploadId"]}
        etag = client.upload_part(PartNumber=1, Body=body, **part)["ETag"]
        done = client.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **part)
        assert done["Location"].startswith("https://")
        return [client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in ("k", "parts")]

    assert await asyncio.to_thread(work) == [body, body]
    assert sent == [b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"]
    assert service.endpoint == f"https://127.0.0.1:{service.port}"


async def test_old_versions_are_refused(service, tmp_path):
    authority = tmp_path / "cert.pem"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.to_thread(handshake, service.port, authority, ssl.TLSVersion.TLSv1_1)
    found, _ = await asyncio.to_thread(handshake, service.port, authority, ssl.TLSVersion.TLSv1_2)
    assert found == "TLSv1.2"
    assert (await asyncio.to_thread(handshake, service.port, authority))[0] == "TLSv1.3"


async def test_plain_http_on_the_port_does_no_harm(service, tmp_path):
    def ask() -> bytes:
        with socket.create_connection(("127.0.0.1", service.port), timeout=20) as wire:
            wire.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                return wire.recv(100)
            except ConnectionError:
                return b""

    assert not (await asyncio.to_thread(ask)).startswith(b"HTTP")
    assert (await asyncio.to_thread(handshake, service.port, tmp_path / "cert.pem"))[0]


async def logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    for _ in range(1_000):
        if text in caplog.text:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{text!r} was not logged: {caplog.text}")


async def test_a_new_chain_is_taken_without_a_restart_and_a_bad_one_is_not(service, tmp_path, caplog):
    certificate = ServerCertificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    listener = socket.create_server(("127.0.0.1", 0))

    async def shown() -> bytes:
        def serve_one() -> None:
            plain, _ = listener.accept()
            with plain, certificate.context.wrap_socket(plain, server_side=True):
                pass

        server = threading.Thread(target=serve_one)
        server.start()
        try:
            return (await asyncio.to_thread(handshake, listener.getsockname()[1], tmp_path / "cert.pem"))[1]
        finally:
            server.join()

    first = await shown()
    following = asyncio.create_task(certificate.follow(period_s=0.02))
    try:
        good = (tmp_path / "cert.pem").read_bytes()
        (tmp_path / "cert.pem").write_text("no certificate")
        await logged(caplog, "the certificate before stays")
        (tmp_path / "cert.pem").write_bytes(good)
        assert await shown() == first
        caplog.set_level("INFO")
        make_certificate(tmp_path, "second")
        await logged(caplog, "read again")
        assert await shown() not in (b"", first)
    finally:
        following.cancel()
        listener.close()


@pytest.mark.parametrize("fault", ["missing", "other key", "encrypted"])
def test_a_chain_that_cannot_be_used_is_named(tmp_path, fault):
    make_certificate(tmp_path, "first")
    if fault == "missing":
        (tmp_path / "key.pem").unlink()
    else:
        (tmp_path / "other").mkdir()
        make_certificate(tmp_path / "other", "other")
        data = (tmp_path / "other" / "key.pem").read_bytes()
        if fault == "encrypted":
            key = serialization.load_pem_private_key((tmp_path / "key.pem").read_bytes(), None)
            form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
            data = key.private_bytes(*form, serialization.BestAvailableEncryption(b"hushhush"))
        (tmp_path / "key.pem").write_bytes(data)
    with pytest.raises(ConfigError, match="key.pem") as caught:
        ServerCertificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    if fault == "encrypted":
        assert "encrypted" in str(caught.value)
