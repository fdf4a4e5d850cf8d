"""What every client is made to do, and how it is known that it was done: looked at with another client, and in the bucket."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from botocore.exceptions import ClientError

from tests.e2e.bodies import sha256
from tests.e2e.clients.catalogue import OPERATIONS, Program
from tests.e2e.clients.worker import ClientFailed, Worker
from tests.e2e.conftest import BUCKET, Endpoint

PART: Final = 5 << 20
_WRITES: Final = frozenset({"PutObject", "UploadPart", "CopyObject", "UploadPartCopy", "CompleteMultipartUpload"})
_COUNT: Final = re.compile(r's4weights_request_seconds_count\{operation="(\w+)",status="2\d\d"\} ([\d.]+)')


@dataclass(frozen=True)
class Body:
    """kind: checkpoint, which is stored in fewer bytes, or noise, which is stored as it is."""

    kind: str
    path: Path

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()


@dataclass(frozen=True)
class Bodies:
    """Of each kind one of less than a part and one of several, all of them in `folder`."""

    folder: Path
    small: tuple[Body, Body]
    large: tuple[Body, Body]

    def all(self) -> tuple[Body, ...]:
        return self.small + self.large


class Run:
    """One client against one endpoint, under a prefix of its own."""

    def __init__(self, program: Program, worker: Worker, endpoint: Endpoint, bodies: Bodies, folder: Path) -> None:
        self._worker = worker
        self._endpoint = endpoint
        self._bodies = bodies
        self._folder = folder
        self._program = program
        self._s3 = endpoint.proxy.client()
        self.prefix = re.sub(r"\W+", "-", program.name.lower()).strip("-")

    def results(self) -> Iterator[tuple[str, str]]:
        """(operation, "" or what went wrong) of all that this client has; a failure ends none of the others."""
        steps: dict[str, Callable[[], None]] = {
            "PUT": self._put,
            "multipart": self._multipart,
            "GET": self._get,
            "range": self._range,
            "list": self._list,
            "copy": self._copy,
            "delete": self._delete,
            "sync twice": self._sync_twice,
        }
        assert tuple(steps) == OPERATIONS
        for operation, step in steps.items():
            if operation not in self._program.lacks:
                yield operation, _outcome(step)
        for name, method in self._program.own.items():
            yield name, _outcome(lambda method=method: self._own(method))

    def _own(self, method: str) -> None:
        for body in self._bodies.large:
            if body.kind in self._program.own_bodies:
                self._worker.call(method, path=str(body.path), prefix=f"{self.prefix}/own/{method}/{body.kind}")

    def _key(self, body: Body) -> str:
        return f"{self.prefix}/bodies/{body.path.name}"

    def _put(self) -> None:
        for body in self._bodies.small:
            self._worker.call("put", path=str(body.path), key=self._key(body))
            assert "-" not in self._check_stored(self._key(body), body), "sent in parts"

    def _multipart(self) -> None:
        for body in self._bodies.large:
            self._worker.call("multipart", path=str(body.path), key=self._key(body))
            parts = self._check_stored(self._key(body), body).partition("-")[2]
            assert int(parts or "1") >= len(body.data) / (8 << 20), f"{parts or 'no'} parts"

    def _get(self) -> None:
        for body in self._bodies.large:
            self._ensure(body)
            target = self._folder / "got"
            self._worker.call("get", key=self._key(body), path=str(target))
            assert sha256(target.read_bytes()) == sha256(body.data), f"other bytes of {body}"
            target.unlink()

    def _range(self) -> None:
        for body in self._bodies.large:
            self._ensure(body)
            size = len(body.data)
            for start, end in [(PART - 1_000_000, PART + 1_000_000), (size - 9, size)]:
                target = self._folder / "range"
                self._worker.call("get_range", key=self._key(body), start=start, end=end, path=str(target))
                assert target.read_bytes() == body.data[start:end], f"other bytes of {body} at {start}:{end}"
                target.unlink()

    def _list(self) -> None:
        for body in self._bodies.all():
            self._ensure(body)
        expected = {self._key(body): len(body.data) for body in self._bodies.all()}
        assert dict(self._worker.call("list", prefix=f"{self.prefix}/bodies/")) == expected

    def _copy(self) -> None:
        for body in self._bodies.large:
            self._ensure(body)
            target = f"{self.prefix}/copies/{body.path.name}"
            self._worker.call("copy", source=self._key(body), target=target)
            self._check_stored(target, body)

    def _delete(self) -> None:
        for body in self._bodies.large:
            self._ensure(body)
            self._worker.call("delete", key=self._key(body))
            try:
                self._s3.head_object(Bucket=BUCKET, Key=self._key(body))
            except ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 404
            else:
                raise AssertionError(f"{self._key(body)} is still there")

    def _sync_twice(self) -> None:
        prefix = f"{self.prefix}/sync"
        self._worker.call("sync", folder=str(self._bodies.folder), prefix=prefix)
        for body in self._bodies.all():
            self._check_stored(f"{prefix}/{body.path.name}", body)
        before = self._writes()
        self._worker.call("sync", folder=str(self._bodies.folder), prefix=prefix)
        assert self._writes() == before, "the second sync wrote again"

    def _writes(self) -> float:
        """Writes that the proxy has answered with success."""
        _, text = self._endpoint.proxy.health("metrics")
        counts = _COUNT.findall(text)
        assert counts
        return sum(float(count) for operation, count in counts if operation in _WRITES)

    def _ensure(self, body: Body) -> None:
        """For clients that cannot write so, and after an operation that failed."""
        if "Contents" not in self._s3.list_objects_v2(Bucket=BUCKET, Prefix=self._key(body)):
            self._s3.put_object(Bucket=BUCKET, Key=self._key(body), Body=body.data)

    def _check_stored(self, key: str, body: Body) -> str:
        """Its own bytes and size, and stored as its kind is. Its ETag without quotes."""
        answer = self._s3.get_object(Bucket=BUCKET, Key=key)
        assert sha256(answer["Body"].read()) == sha256(body.data), f"{key}: other bytes"
        rows = self._s3.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"]
        assert [(row["Size"], row["ETag"]) for row in rows] == [(len(body.data), answer["ETag"])]
        stored = self._endpoint.stored_bytes(key)
        if body.kind == "checkpoint":
            assert stored < 0.95 * len(body.data), f"{key}: {stored} bytes stored of {len(body.data)}"
        else:
            assert stored == len(body.data)
        return str(answer["ETag"]).strip('"')


def make_bodies(folder: Path, small_checkpoint: Path, large_checkpoint: Path) -> Bodies:
    """Hard links or copies of the checkpoints, and noise beside them; all of them some minutes old, for sync."""
    folder.mkdir()
    small, large = folder / f"small{small_checkpoint.suffix}", folder / f"large{large_checkpoint.suffix}"
    small.write_bytes(small_checkpoint.read_bytes())
    large.write_bytes(large_checkpoint.read_bytes())
    (folder / "small noise.bin").write_bytes(os.urandom(1_500_000))
    (folder / "large noise+ö.bin").write_bytes(os.urandom(2 * PART + 12_345))
    for path in folder.iterdir():
        os.utime(path, (path.stat().st_mtime - 600,) * 2)
    return Bodies(
        folder,
        (Body("checkpoint", small), Body("noise", folder / "small noise.bin")),
        (Body("checkpoint", large), Body("noise", folder / "large noise+ö.bin")),
    )


def _outcome(step: Callable[[], None]) -> str:
    try:
        step()
    except (AssertionError, ClientError, ClientFailed, OSError) as error:
        return str(error) or repr(error)
    return ""
