"""After calls of every form, right and wrong, at the loudest level: nothing secret in the log or the state directory."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.e2e.proxy_process import ProxyProcess
from tests.proxy.handlers.test_post_object import BOUNDARY, encode_form

from .signing import SIGNED_CHUNKS, SIGNED_TRAILER, Signer

BUCKET = "training"
KEYS = {
    "AKIANAMED": ("hush-secret-of-the-first/+key", "hush-token-of-the-first=="),
    "AKIAOTHER": ("hush-secret-of-the-second/+key", None),
}
SSE_KEY = os.urandom(32)


@pytest.fixture(params=["text", "json"])
def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProxyProcess]:
    (tmp_path / "buckets" / BUCKET).mkdir(parents=True)
    rows = [
        f'[[key]]\naccess_key = "{name}"\nsecret_key = "{secret}"\n' + (f'session_token = "{token}"\n' if token else "")
        for name, (secret, token) in KEYS.items()
    ]
    file = tmp_path / "keys.toml"
    file.write_text("".join(rows))
    file.chmod(0o600)
    settings = {"S4W_LOG_LEVEL": "DEBUG", "S4W_LOG_FORMAT": request.param, "S4W_CREDENTIALS_FILE": str(file)}
    one = ProxyProcess(
        str(tmp_path / "buckets"), tmp_path / "state", {**settings, "S4W_ACCESS_KEY": "", "S4W_SECRET_KEY": ""}
    )
    one.start()
    yield one
    one.stop()


class Wire:
    """Sends as it is told; remembers what must not show up anywhere."""

    def __init__(self, proxy: ProxyProcess) -> None:
        self.proxy = proxy
        self.host = f"127.0.0.1:{proxy.port}"
        self.secrets = {secret for pair in KEYS.values() for secret in pair if secret}
        self.secrets |= {SSE_KEY.decode("latin-1"), base64.b64encode(SSE_KEY).decode()}

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> int:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with socket.create_connection(("127.0.0.1", self.proxy.port), timeout=20) as wire:
            wire.sendall(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
            wire.shutdown(socket.SHUT_WR)
            data = b""
            while more := wire.recv(1 << 16):
                data += more
        return int(data.split(b" ", 2)[1]) if data else 0


def test_nothing_secret_is_logged_or_kept(proxy):
    wire = Wire(proxy)
    path = f"/{BUCKET}/k"
    statuses = []
    for name, (secret, token) in KEYS.items():
        for signer in (Signer(wire.host, secret, name, token), Signer(wire.host, f"wrong-{secret}", name, token)):
            for payload, trailer in (
                ("UNSIGNED-PAYLOAD", None),
                (SIGNED_CHUNKS, None),
                (SIGNED_TRAILER, "x-amz-checksum-x:1"),
            ):
                framing = (
                    {"x-amz-decoded-content-length": "5", "content-encoding": "aws-chunked"}
                    if trailer or "S" in payload[:2]
                    else {}
                )
                signed = signer.headers("PUT", path, framing, payload)
                wire.secrets.add(signed.signature)
                body = b"".join(signed.chunks([b"hello"], trailer)) if framing else b"hello"
                wire.secrets |= {
                    line.split(b"=")[1].decode() for line in body.split(b"\r\n") if b"chunk-signature=" in line
                }
                statuses.append(wire.send("PUT", path, {**signed.headers, "content-length": str(len(body))}, body))
            url = signer.presigned("GET", path)
            wire.secrets.add(url[-64:])
            for asked in (url, url.replace("X-Amz-", "X%2DAmz%2D"), url[:-1], url + "%00", url.replace("/k?", "/%ff?")):
                statuses.append(wire.send("GET", asked, {"host": wire.host}))
            # Lines that cannot be read, with what could be read of them.
            authorization = signed.headers["authorization"]
            for line in (
                f"Authorization: {authorization}\0",
                f"Authorization : {authorization}",
                f"Authorization\n{authorization}",
            ):
                statuses.append(wire.send("GET", path, {"host": wire.host, "x": f"y\r\n{line}"}))
            statuses.append(wire.send("GET", path, {**signed.headers, "authorization": authorization + ", x"}))
            statuses.append(wire.send(authorization, path, {"host": wire.host}))
            statuses.append(wire.send("GET", path, {"host": wire.host, "authorization": f"AWS {name}:{secret}"}))
            statuses.append(
                wire.send("GET", f"{path}?AWSAccessKeyId={name}&Signature={secret}&Expires=1", {"host": wire.host})
            )
        client = boto3.client(
            "s3",
            endpoint_url=proxy.endpoint,
            region_name="us-east-1",
            aws_access_key_id=name,
            aws_secret_access_key=secret,
            aws_session_token=token,
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, signature_version="s3v4"),
        )
        form = client.generate_presigned_post(BUCKET, "form")["fields"]
        wire.secrets |= {form["x-amz-signature"], form["policy"]}
        for fields in (form, {**form, "key": "other"}, {**form, "x-amz-signature": form["policy"]}):
            body = encode_form(fields, b"x")
            head = {"host": wire.host, "content-type": f"multipart/form-data; boundary={BOUNDARY}"}
            statuses.append(wire.send("POST", f"/{BUCKET}", {**head, "content-length": str(len(body))}, body))
        customer = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": SSE_KEY}
        with pytest.raises(ClientError):
            client.put_object(Bucket=BUCKET, Key="sse", Body=b"x", **customer)
        with pytest.raises(ClientError):
            client.get_object(Bucket=BUCKET, Key="sse", **customer)
        upload = client.create_multipart_upload(Bucket=BUCKET, Key="open")
        client.upload_part(Bucket=BUCKET, Key="open", UploadId=upload["UploadId"], PartNumber=1, Body=b"x" * 3_000)
        client.list_objects_v2(Bucket=BUCKET)
    assert {200, 204, 400, 403} <= set(statuses)
    scan(proxy, wire.secrets)
    proxy.stop()
    scan(proxy, wire.secrets)


def scan(proxy: ProxyProcess, secrets: set[str]) -> None:
    """Every file that the proxy writes, for each secret and what can be made of it."""
    files = [proxy.log, *(path for path in proxy.state_dir.rglob("*") if path.is_file())]
    text = b"".join(path.read_bytes() for path in files)
    assert b"GetObject" in text
    for secret in secrets:
        raw = secret.encode("latin-1")
        forms = {raw, base64.b64encode(raw), raw.hex().encode(), json.dumps(secret).strip('"').encode()}
        forms |= {secret.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D").encode("latin-1")}
        if len(raw) >= 32:
            forms.add(raw[:24])  # cut off somewhere
        assert not [form for form in forms if form in text], secret
    digest = hashlib.md5(SSE_KEY, usedforsecurity=False).digest()
    assert base64.b64encode(digest) not in text
