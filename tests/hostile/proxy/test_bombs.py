"""Lengths that lie and bodies that swell, against the real process: its memory stays bounded, and it serves on."""

from __future__ import annotations

import io
import json
import socket
import struct
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from s4weights.codec.container import TRAILER_BYTES, Trailer
from s4weights.files import pack_file
from tests.e2e.proxy_process import ProxyProcess

from .signing import SIGNED_CHUNKS, SIGNED_TRAILER, UNSIGNED_TRAILER, Signer

BUCKET = "training"
MIB = 1 << 20
# Above what it takes after its start; one hostile length believed would take gigabytes.
ROOM_BYTES = 300 * MIB


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    folder = tmp_path_factory.mktemp("bombs")
    (folder / "buckets" / BUCKET).mkdir(parents=True)
    one = ProxyProcess(str(folder / "buckets"), folder / "state")
    one.start()
    yield one
    one.stop()


@pytest.fixture
def bounded(proxy: ProxyProcess) -> Iterator[ProxyProcess]:
    """The peak of its memory is compared with what it was, and it must still answer."""
    proxy.client().put_object(Bucket=BUCKET, Key="before", Body=b"x")
    Path(f"/proc/{proxy.pid}/clear_refs").write_text("5")  # forget the peak
    before = memory(proxy, "VmRSS")
    yield proxy
    assert memory(proxy, "VmHWM") - before < ROOM_BYTES
    assert proxy.client().get_object(Bucket=BUCKET, Key="before")["Body"].read() == b"x"
    assert proxy.health("readyz")[0] == 200


def memory(proxy: ProxyProcess, name: str) -> int:
    lines = Path(f"/proc/{proxy.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) << 10


def round_trip(proxy: ProxyProcess, body: bytes) -> None:
    client = proxy.client()
    client.put_object(Bucket=BUCKET, Key="bomb", Body=body)
    assert client.get_object(Bucket=BUCKET, Key="bomb")["Body"].read() == body
    upload = {"Bucket": BUCKET, "Key": "parts"}
    upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
    etag = client.upload_part(PartNumber=1, Body=body, **upload)["ETag"]
    client.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **upload)
    assert client.get_object(Bucket=BUCKET, Key="parts")["Body"].read() == body


def gguf(tensors: int, pairs: int, *more: bytes) -> bytes:
    return struct.pack("<4sIQQ", b"GGUF", 3, tensors, pairs) + b"".join(more) + bytes(20_000)


def safetensors(header: object, *, length: int | None = None, body: bytes = bytes(20_000)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def tensor(*offsets: int, shape: tuple[int, ...] = (4,)) -> dict[str, object]:
    return {"w": {"dtype": "F32", "shape": list(shape), "data_offsets": list(offsets)}}


def zip_of(name: str, **claims: int) -> bytes:
    """An archive as torch.save writes it, whose directory claims other sizes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if claims.get("deflate") else zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
        archive.writestr(name, bytes(claims.get("size", 50_000)))
    data = bytearray(buffer.getvalue())
    if "claimed" in claims:
        at = data.rindex(b"PK\x01\x02")
        struct.pack_into("<II", data, at + 20, claims["claimed"], claims["claimed"])
    return bytes(data)


STRING = struct.pack("<Q", 1) + b"k" + struct.pack("<I", 8)
ARRAY = struct.pack("<Q", 1) + b"k" + struct.pack("<II", 9, 9)

BODIES = {
    "gguf of 2^32 pairs": gguf(1, 1 << 32),
    "gguf of 2^63 tensors": gguf(1 << 63, 1),
    "gguf with a string of 2^63": gguf(1, 1, STRING, struct.pack("<Q", 1 << 63)),
    "gguf with an array of 2^62": gguf(1, 1, struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 0, 1 << 62)),
    "gguf of nested arrays": gguf(1, 1, ARRAY, struct.pack("<QI", 1, 9) * 5_000),
    "safetensors, header of 2^63": safetensors({}, length=1 << 63),
    "safetensors, header of 100 MB that does not come": safetensors(tensor(0, 16), length=100_000_000),
    "safetensors, header of 2^64 - 1": safetensors({}, length=(1 << 64) - 1),
    "safetensors, tensor of 2^63": safetensors(tensor(0, 1 << 63, shape=(1 << 61,))),
    "safetensors, tensor before its start": safetensors(tensor(1 << 62, 0)),
    "safetensors, shape that overflows": safetensors(tensor(0, 16, shape=(1 << 32, 1 << 32, 4))),
    "safetensors, deep header": safetensors(b'{"w":' + b"[" * 100_000),
    "safetensors, number of 100,000 digits": safetensors(b'{"w":{"dtype":"F32","shape":[' + b"9" * 100_000 + b"]}}"),
    "zip that claims 4 GiB": zip_of("archive/data/0", claimed=0xFFFFFFFE),
    "zip of zeros, deflated": zip_of("archive/data/0", size=64 * MIB, deflate=1),
    "npz of zeros, deflated": zip_of("w.npy", size=64 * MIB, deflate=1),
    "zeros": bytes(8 * MIB),
    "npy of 2^62": b"\x93NUMPY\x01\x00v\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}".ljust(117)
    + b"\n"
    + bytes(20_000),
    "pickle of long claims": b"\x80\x04\x95"
    + struct.pack("<Q", 1 << 62)
    + b"\x8e"
    + struct.pack("<Q", 1 << 62)
    + bytes(9_000),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_body_that_lies_of_itself_comes_back_as_it_was(bounded, body):
    round_trip(bounded, body)


def send(proxy: ProxyProcess, head: dict[str, str], *pieces: bytes, method: str = "PUT", path: str = "") -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as wire:
        data = b""
        try:
            wire.sendall(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode())
            for piece in pieces:
                wire.sendall(piece)
            wire.shutdown(socket.SHUT_WR)
            while more := wire.recv(1 << 16):
                data += more
        except OSError:
            pass  # it closed first
        return data


@pytest.mark.parametrize("payload", [UNSIGNED_TRAILER, SIGNED_CHUNKS, SIGNED_TRAILER])
@pytest.mark.parametrize("claim", [(1 << 63) - 1, 1 << 63, 10**30, -1])
def test_a_length_that_no_body_has(bounded, payload, claim):
    signer = Signer(f"127.0.0.1:{bounded.port}", "e2e-secret-key", "AKIAE2ETESTS")
    framing = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(claim)}
    signed = signer.headers("PUT", f"/{BUCKET}/k", framing, payload).headers
    chunk = f"{(1 << 63) - 1:x}{';chunk-signature=' + '0' * 64 if payload != UNSIGNED_TRAILER else ''}\r\n".encode()
    answer = send(bounded, {**signed, "content-length": "1000"}, chunk, path=f"/{BUCKET}/k")
    assert answer.startswith(b"HTTP/1.1 400 ")
    plain = signer.headers("PUT", f"/{BUCKET}/k", {}).headers
    answer = send(bounded, {**plain, "content-length": str(claim)}, b"x", path=f"/{BUCKET}/k")
    # A head that cannot be read ends the connection, and what was sent after it may cost the answer.
    assert not answer or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))


def test_many_clients_that_announce_the_most_and_send_nothing(bounded):
    signer = Signer(f"127.0.0.1:{bounded.port}", "e2e-secret-key", "AKIAE2ETESTS")
    wires = []
    for number in range(100):
        path = f"/{BUCKET}/many-{number}"
        head = {**signer.headers("PUT", path, {}).headers, "content-length": str(5 << 30)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        wires.append(socket.create_connection(("127.0.0.1", bounded.port), timeout=20))
        wires[-1].sendall(f"PUT {path} HTTP/1.1\r\n{lines}\r\n".encode() + safetensors(tensor(0, 5 << 30))[:3_000])
    assert bounded.client().list_objects_v2(Bucket=BUCKET, Prefix="many-")["KeyCount"] == 0
    for wire in wires:
        wire.close()


def test_documents_of_many_elements_at_once(bounded):
    signer = Signer(f"127.0.0.1:{bounded.port}", "e2e-secret-key", "AKIAE2ETESTS")
    body = b"<Delete>" + b"<a>" * 1_000_000
    answers: list[bytes] = []

    def ask() -> None:
        head = signer.headers("POST", f"/{BUCKET}?delete=", {}).headers
        answers.append(
            send(bounded, {**head, "content-length": str(len(body))}, body, method="POST", path=f"/{BUCKET}?delete=")
        )

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(b"<Code>MalformedXML</Code>" in answer for answer in answers)
    assert len(answers) == 8


@pytest.mark.parametrize(
    "claim",
    [
        {"logical_bytes": (1 << 63) - 1},
        {"frames": (1 << 32) - 1},
        {"index_offset": 32, "index_bytes": None},
        {"logical_bytes": 0},
        {"frames": 0},
    ],
    ids=lambda claim: ", ".join(claim),
)
def test_a_container_in_the_bucket_that_lies_is_an_error_never_wrong_bytes(bounded, tmp_path, claim):
    body = safetensors(tensor(0, 400_000, shape=(100_000,)), body=bytes(range(250)) * 1_600)
    (tmp_path / "body").write_bytes(body)
    pack_file(tmp_path / "body", tmp_path / "container")
    stored = (tmp_path / "container").read_bytes()
    right = Trailer.parse(stored, object_bytes=len(stored))
    fields = {name: getattr(right, name) for name in Trailer.__slots__} | claim
    if fields["index_bytes"] is None:
        fields["index_bytes"] = len(stored) - TRAILER_BYTES - 32
    forged = stored[:-TRAILER_BYTES] + Trailer(**fields).to_bytes()
    (Path(bounded.upstream) / BUCKET / "forged").write_bytes(forged)
    client = bounded.client()
    client.list_objects_v2(Bucket=BUCKET)
    with pytest.raises((ClientError, BotoCoreError)):
        client.get_object(Bucket=BUCKET, Key="forged")["Body"].read()
