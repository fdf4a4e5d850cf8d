"""Files and objects, read by range: a path, a folder, or s3://bucket/key-or-prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from s4weights.codec.errors import ConfigError

_SCHEME: Final = "s3://"


class Source(Protocol):
    """One body. name: for people. read_bytes: how much of it was read so far."""

    name: str
    size: int
    read_bytes: int

    def read(self, start: int, length: int) -> bytes:
        """Exactly length bytes. Raises: OSError where they are not there."""
        ...


class KeptSource(Source, Protocol):
    """One that lies somewhere."""

    def metadata(self) -> Mapping[str, str]:
        """What is kept beside it, by name in lower case."""
        ...


class FileSource:
    """A file on this machine."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.size = path.stat().st_size
        self.read_bytes = 0
        self._path = path

    def read(self, start: int, length: int) -> bytes:
        """See Source."""
        with self._path.open("rb") as file:
            file.seek(start)
            data = file.read(length)
        return _counted(self, data, start, length)

    def metadata(self) -> Mapping[str, str]:
        """See KeptSource."""
        return {}


class ObjectSource:
    """One version of an object; another one that takes its place meanwhile is an error."""

    def __init__(self, client: Any, bucket: str, key: str, size: int, etag: str) -> None:
        self.name = f"{_SCHEME}{bucket}/{key}"
        self.size = size
        self.read_bytes = 0
        self._client = client
        self._place = {"Bucket": bucket, "Key": key, "IfMatch": etag}

    def read(self, start: int, length: int) -> bytes:
        """See Source."""
        if not length:
            return b""
        with _s3_faults(self.name):
            answer = self._client.get_object(**self._place, Range=f"bytes={start}-{start + length - 1}")
            data = answer["Body"].read()
        return _counted(self, data, start, length)

    def metadata(self) -> Mapping[str, str]:
        """See KeptSource."""
        with _s3_faults(self.name):
            answer = self._client.head_object(**self._place)
        return {name.lower(): value for name, value in answer.get("Metadata", {}).items()}


def open_sources(place: str) -> Sequence[KeptSource]:
    """Every body at a place, in order of their names: one file, the files below a folder, the objects below a prefix.

    Raises: OSError where nothing is there; ConfigError without boto3.
    """
    if place.startswith(_SCHEME):
        bucket, _, prefix = place.removeprefix(_SCHEME).partition("/")
        return _list_objects(_client(place), bucket, prefix)
    path = Path(place)
    if not path.is_dir():
        return [FileSource(path)]
    found = sorted(file for file in path.rglob("*") if file.is_file())
    if not found:
        raise FileNotFoundError(f"{place}: expected files below this folder, found none")
    return [FileSource(file) for file in found]


def open_source(place: str) -> Source:
    """The one body at a place. Raises: as open_sources, and OSError where it is no single object."""
    if not place.startswith(_SCHEME):
        return FileSource(Path(place))
    bucket, _, key = place.removeprefix(_SCHEME).partition("/")
    if not key:
        raise ConfigError(f"{place}: expected s3://BUCKET/KEY, found no key")
    client = _client(place)
    with _s3_faults(place):
        head = client.head_object(Bucket=bucket, Key=key)
    return ObjectSource(client, bucket, key, int(head["ContentLength"]), head["ETag"])


def _client(place: str) -> Any:
    """As AWS's own tools are configured: credentials, region, AWS_ENDPOINT_URL."""
    if not place.removeprefix(_SCHEME).partition("/")[0]:
        raise ConfigError(f"{place}: expected s3://BUCKET/KEY, found no bucket")
    try:
        boto3 = import_module("boto3")
    except ImportError:
        raise ConfigError(f"{place}: boto3 is missing: pip install boto3") from None
    with _s3_faults(place):
        return boto3.client("s3")


def _list_objects(client: Any, bucket: str, prefix: str) -> list[KeptSource]:
    found: list[KeptSource] = []
    with _s3_faults(f"{_SCHEME}{bucket}/{prefix}"):
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for row in page.get("Contents", []):
                found.append(ObjectSource(client, bucket, row["Key"], int(row["Size"]), row["ETag"]))
    if not found:
        raise FileNotFoundError(f"{_SCHEME}{bucket}/{prefix}: expected objects with this prefix, found none")
    return found


def _counted(source: FileSource | ObjectSource, data: bytes, start: int, length: int) -> bytes:
    source.read_bytes += len(data)
    if len(data) != length:
        raise OSError(f"{source.name} at byte {start}: expected {length} bytes, found {len(data)}: did it change?")
    return data


@contextmanager
def _s3_faults(place: str) -> Iterator[None]:
    """What boto3 raises becomes an OSError that names the place."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.startswith(("botocore.", "boto3.", "urllib3.")):
            raise OSError(f"{place}: {error}") from None
        raise
