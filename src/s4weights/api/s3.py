"""Objects of a bucket as streams, through boto3: parallel parts on the way there, blocks read ahead on the way back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, Final

from s4weights.codec.errors import ConfigError
from s4weights.codec.types import Buffer

from .targets import S3Uri

_CONNECTIONS: Final = 4
_PART_BYTES: Final = 8 << 20
# S3 takes 10,000 parts: they grow by 8 MiB with each 500, which is room for 1.6 TiB.
_PARTS_A_SIZE: Final = 500
_BLOCK_BYTES: Final = 8 << 20
_KEPT_BLOCKS: Final = 6
# The proxy's marker (proxy/objects/marker.py), as boto3 names it.
_MARKER: Final = {"s4w": "container"}
# The proxy's answer (proxy/handlers/attributes.py) where a client sets that marker, or writes beside the objects.
_KEPT: Final = "is kept for s4weights itself"
_NOT_FOUND: Final = frozenset({"404", "NoSuchKey", "NoSuchBucket"})


def open_client(endpoint: str | None = None) -> Any:
    """endpoint: of another server than boto3's own configuration says. Raises: ImportError where boto3 is missing."""
    try:
        import boto3
        from botocore.config import Config
    except ModuleNotFoundError as error:
        raise ImportError("s3:// needs boto3: pip install 's4weights[torch]'") from error
    config = Config(retries={"mode": "standard", "total_max_attempts": 5}, max_pool_connections=2 * _CONNECTIONS)
    return boto3.client("s3", endpoint_url=endpoint, config=config)


def is_proxys_refusal(answer: str) -> bool:
    """Whether an error's message is the proxy's own, to a client that writes what only the proxy writes."""
    return _KEPT in answer


def proxy_refused(uri: S3Uri, endpoint: str) -> ConfigError:
    """What to say then."""
    return ConfigError(
        f"{uri}: expected a bucket's own endpoint, found an s4weights proxy at {endpoint}, which packs by itself what it is "
        "sent: save there with torch.save, or name the bucket's own endpoint with endpoint="
    )


def list_names(client: Any, folder: S3Uri, start: str) -> list[str]:
    """What lies in a folder, but for folders in it, and begins so. Raises: botocore's ClientError."""
    prefix = f"{folder.key.strip('/')}/"
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=folder.bucket, Prefix=prefix + start, Delimiter="/")
    return [entry["Key"].removeprefix(prefix) for page in pages for entry in page.get("Contents", [])]


@contextmanager
def upload(client: Any, uri: S3Uri, *, is_container: bool = True) -> Iterator[S3Upload]:
    """An object that appears when the block ends well, and of which nothing is left when it does not.

    Raises: ConfigError where the endpoint is a proxy of ours, which takes no containers; botocore's errors.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    writing = S3Upload(client, uri, _MARKER if is_container else {})
    try:
        yield writing
        writing.complete()
    except BaseException as error:
        # What ended the upload is the news; where nobody answers, nobody aborts either.
        with suppress(BotoCoreError, ClientError):
            writing.abort()
        if isinstance(error, ClientError) and is_proxys_refusal(str(error)):
            raise proxy_refused(uri, client.meta.endpoint_url) from error
        raise
    finally:
        writing.close()


class S3Upload:
    """Bytes on their way into one object; a short one is one PUT."""

    def __init__(self, client: Any, uri: S3Uri, metadata: dict[str, str]) -> None:
        self._client = client
        self._place = {"Bucket": uri.bucket, "Key": uri.key}
        self._metadata = metadata
        self._pool = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="upload")
        self._pending = bytearray()
        self._upload_id: str | None = None
        self._parts: list[Future[dict[str, Any]]] = []

    def write(self, data: Buffer) -> None:
        """Take the next bytes; waits while enough parts are on their way."""
        self._pending += data
        if len(self._pending) >= _PART_BYTES * (1 + len(self._parts) // _PARTS_A_SIZE):
            self._send()

    def complete(self) -> None:
        """Make the object visible."""
        if self._upload_id is None:
            self._client.put_object(**self._place, Body=bytes(self._pending), Metadata=self._metadata)
            return
        if self._pending:
            self._send()
        parts = [one.result() for one in self._parts]
        self._client.complete_multipart_upload(
            **self._place, UploadId=self._upload_id, MultipartUpload={"Parts": parts}
        )
        self._upload_id = None

    def abort(self) -> None:
        """Drop what was sent."""
        self._pool.shutdown(cancel_futures=True)
        if self._upload_id is not None:
            self._client.abort_multipart_upload(**self._place, UploadId=self._upload_id)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _send(self) -> None:
        if self._upload_id is None:
            self._upload_id = self._client.create_multipart_upload(**self._place, Metadata=self._metadata)["UploadId"]
        while len(under_way := [one for one in self._parts if not one.done()]) >= _CONNECTIONS:
            wait(under_way, return_when=FIRST_COMPLETED)
        for one in self._parts[-2 * _CONNECTIONS :]:
            if one.done():
                one.result()
        body, self._pending = bytes(self._pending), bytearray()
        self._parts.append(self._pool.submit(self._send_part, len(self._parts) + 1, body))

    def _send_part(self, number: int, body: bytes) -> dict[str, Any]:
        answer = self._client.upload_part(**self._place, UploadId=self._upload_id, PartNumber=number, Body=body)
        checksums = {name: value for name, value in answer.items() if name in _PART_CHECKSUMS}
        return {"PartNumber": number, "ETag": answer["ETag"], **checksums}


# boto3 sends one with each part unless it is told otherwise, and the list of parts then names it.
_PART_CHECKSUMS: Final = frozenset({"ChecksumCRC32", "ChecksumCRC32C", "ChecksumSHA1", "ChecksumSHA256"})


class S3Bytes:
    """One version of an object, in blocks; the next block is asked for while one is used. See Stored."""

    def __init__(self, client: Any, uri: S3Uri) -> None:
        """Raises: FileNotFoundError; botocore's ClientError."""
        from botocore.exceptions import ClientError

        self._client = client
        self._uri = uri
        try:
            head = client.head_object(Bucket=uri.bucket, Key=uri.key)
        except ClientError as error:
            if error.response["Error"]["Code"] in _NOT_FOUND:
                raise FileNotFoundError(f"{uri}: expected an object, found none") from error
            raise
        self.size = int(head["ContentLength"])
        self._etag = head["ETag"]
        self._pool = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="download")
        self._blocks: OrderedDict[int, Future[bytes]] = OrderedDict()
        self._lock = Lock()

    def read(self, start: int, length: int) -> bytes:
        """See Stored. Raises: ClientError, PreconditionFailed where the object was replaced since it was opened."""
        end = min(start + length, self.size)
        if start >= end:
            return b""
        numbers = range(start // _BLOCK_BYTES, (end - 1) // _BLOCK_BYTES + 1)
        return b"".join(
            [
                self._block(number)[max(0, start - number * _BLOCK_BYTES) : end - number * _BLOCK_BYTES]
                for number in numbers
            ]
        )

    def close(self) -> None:
        """See Stored."""
        self._pool.shutdown(cancel_futures=True)
        self._blocks.clear()

    def _block(self, number: int) -> bytes:
        with self._lock:
            goes_on = number - 1 in self._blocks
            wanted = self._asked(number)
            if goes_on and (number + 1) * _BLOCK_BYTES < self.size:
                self._asked(number + 1)
            while len(self._blocks) > _KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        return wanted.result()

    def _asked(self, number: int) -> Future[bytes]:
        if number not in self._blocks:
            self._blocks[number] = self._pool.submit(self._fetch, number)
        self._blocks.move_to_end(number)
        return self._blocks[number]

    def _fetch(self, number: int) -> bytes:
        first = number * _BLOCK_BYTES
        last = min(first + _BLOCK_BYTES, self.size) - 1
        answer = self._client.get_object(
            Bucket=self._uri.bucket, Key=self._uri.key, Range=f"bytes={first}-{last}", IfMatch=self._etag
        )
        body: bytes = answer["Body"].read()
        if len(body) != last + 1 - first:
            raise OSError(f"{self._uri}: expected {last + 1 - first} bytes at {first}, found {len(body)}")
        return body
