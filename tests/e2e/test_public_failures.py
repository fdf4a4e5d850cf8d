"""What went wrong elsewhere with a proxy's log and with lengths, tried on the real one; numbers as in tests/hostile/test_cases.py."""

from __future__ import annotations

import base64
import contextlib
import itertools
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.codec.samples import normal, safetensors_raw
from tests.e2e.proxy_process import ACCESS_KEY, SECRET_KEY, ProxyProcess
from tests.servers import SeaweedFS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

BUCKET = "failures"
TOKEN = "hush-session-token-of-a-client"
BODY = safetensors_raw({"w": {"dtype": "BF16", "shape": [300, 200], "data_offsets": [0, 120_000]}}, normal(60_000))


@pytest.fixture(scope="module")
def proxy(seaweedfs: SeaweedFS, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    """Before a bucket that it signs for, telling all that it can."""
    folder = tmp_path_factory.mktemp("failures")
    environment = {**seaweedfs.environment(), "S4W_LOG_LEVEL": "debug", "PYTHONASYNCIODEBUG": "1"}
    running = ProxyProcess(seaweedfs.endpoint, folder / "state", environment)
    running.start()
    running.client().create_bucket(Bucket=BUCKET)
    yield running
    running.stop()


def ask(url: str, method: str = "GET", data: bytes | None = None, headers: dict[str, str] | None = None) -> int:
    request = urllib.request.Request(url, data, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def presigned(proxy: ProxyProcess, key: str, secret: str, token: str | None) -> str:
    """With a session token in the query."""
    request = AWSRequest("GET", f"{proxy.endpoint}/{BUCKET}/{key}")
    S3SigV4QueryAuth(Credentials(ACCESS_KEY, secret, token), "s3", "us-east-1").add_auth(request)
    return str(request.url)


def signed(proxy: ProxyProcess, key: str, secret: str, token: str | None) -> dict[str, str]:
    """With a session token in a header."""
    request = AWSRequest("GET", f"{proxy.endpoint}/{BUCKET}/{key}")
    S3SigV4Auth(Credentials(ACCESS_KEY, secret, token), "s3", "us-east-1").add_auth(request)
    return dict(request.headers.items())


def signatures(url: str, headers: dict[str, str]) -> list[str]:
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
    return [query["X-Amz-Signature"][0], headers["Authorization"].rpartition("Signature=")[2]]


@pytest.mark.case(42)
def test_no_secret_reaches_the_debug_log(proxy, seaweedfs):
    """Tokens, presigned queries, signatures, keys of either side, in requests that are right, wrong and broken."""
    client = proxy.client()
    client.put_object(Bucket=BUCKET, Key="model.safetensors", Body=BODY)
    hidden = [
        TOKEN,
        urllib.parse.quote(TOKEN, safe=""),
        SECRET_KEY,
        *(secret for _, secret in seaweedfs.users().values()),
    ]
    answers = []
    for secret, token, key in itertools.product(
        (SECRET_KEY, "another"), (None, TOKEN), ("model.safetensors", "missing")
    ):
        url, headers = presigned(proxy, key, secret, token), signed(proxy, key, secret, token)
        hidden += signatures(url, headers)
        answers += [ask(url), ask(f"{proxy.endpoint}/{BUCKET}/{key}", headers=headers)]
        # The same as what is no request of S3's.
        ask(f"{url}&uploadId=1&partNumber=zero", "PUT", b"x")
        ask(url.replace("X-Amz-Expires=3600", "X-Amz-Expires=never"))
        ask(f"{url}&X-Amz-Credential=twice")
    assert {200, 400, 403, 404} <= set(answers)
    customer_key = base64.b64encode(b"hush" * 8).decode()
    hidden.append(customer_key)
    with pytest.raises(ClientError):
        client.put_object(
            Bucket=BUCKET,
            Key="sse",
            Body=b"x",
            SSECustomerAlgorithm="AES256",
            SSECustomerKey=b"hush" * 8,
            ContentMD5="bad",
        )
    form = client.generate_presigned_post(BUCKET, "form", Fields={"x-amz-security-token": TOKEN})["fields"]
    hidden += [form["x-amz-signature"], form["policy"]]
    lines = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in form.items()]
    ask(
        f"{proxy.endpoint}/{BUCKET}",
        "POST",
        "".join(lines).encode(),
        {"Content-Type": "multipart/form-data; boundary=b"},
    )

    log = proxy.log.read_text()
    told = [line for line in log.splitlines() if "model.safetensors" in line]
    assert len(told) >= 10, "the log tells nothing of what was asked"
    assert "X-Amz-Signature=****" in log
    for secret in hidden:
        assert secret not in log


@pytest.fixture(scope="module")
def kept(proxy: ProxyProcess) -> bytes:
    """An object that nobody may read without a signature."""
    proxy.client().put_object(Bucket=BUCKET, Key="kept", Body=BODY)
    return BODY


def put(proxy: ProxyProcess, key: str, announced: int, *pieces: bytes, ends: bool = False) -> bytes:
    """All that comes back for a PUT of another length than it announces. A second piece follows the first answer.

    ends: nothing more is sent, and the proxy is told so.
    """
    url = proxy.client().generate_presigned_url("put_object", {"Bucket": BUCKET, "Key": key})
    _, host, path, query, _ = urllib.parse.urlsplit(url)
    head = f"PUT {path}?{query} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {announced}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
        answer = b""
        for piece in pieces:
            connection.sendall(head + piece)
            head = b""
            if ends:
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(20)
            answer += connection.recv(1 << 16)
        # Whatever else there is comes at once, or never.
        connection.settimeout(0.3)
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while piece := connection.recv(1 << 16):
                answer += piece
    return answer


def stored(proxy: ProxyProcess, key: str) -> bytes | None:
    """The object, which is then deleted."""
    client = proxy.client()
    try:
        body: bytes = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    except client.exceptions.NoSuchKey:
        return None
    client.delete_object(Bucket=BUCKET, Key=key)
    return body


SURPLUS = {
    "a byte": b"x",
    "noise": b"\xff" * 100_000,
    "a request without a signature": f"GET /{BUCKET}/kept HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
    "a chunk": b"0\r\n\r\n",
}
LONGER = {"checkpoint": BODY, "bytes": b"no checkpoint" * 99}


@pytest.mark.case(43)
@pytest.mark.parametrize("surplus", SURPLUS)
@pytest.mark.parametrize("name", LONGER)
def test_what_follows_a_body_is_no_part_of_it(proxy, kept, name, surplus):
    """It is judged as a request of its own, which is none, or has no rights."""
    body = LONGER[name]
    answer = put(proxy, "longer", len(body), body, SURPLUS[surplus])
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b" 200 OK") == 1
    assert kept[-1_000:] not in answer
    assert stored(proxy, "longer") == body


@pytest.mark.case(43)
@pytest.mark.parametrize("surplus", SURPLUS)
@pytest.mark.parametrize("name", LONGER)
def test_what_comes_with_a_body_is_no_part_of_it(proxy, kept, name, surplus):
    """In the same packet the request may be refused as a whole; the object is as announced, or there is none."""
    body = LONGER[name]
    answer = put(proxy, "longer", len(body), body + SURPLUS[surplus])
    assert answer[:13] in (b"HTTP/1.1 200 ", b"HTTP/1.0 400 ", b"HTTP/1.1 400 ")
    assert answer.count(b" 200 OK") <= 1
    assert kept[-1_000:] not in answer
    assert stored(proxy, "longer") in ((body,) if b" 200 OK" in answer else (body, None))


@pytest.mark.case(43)
def test_a_body_shorter_than_announced_is_not_stored(proxy):
    answer = put(proxy, "shorter", len(BODY) + 1, BODY, ends=True)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"IncompleteBody" in answer
    assert stored(proxy, "shorter") is None
