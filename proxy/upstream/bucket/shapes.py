"""Header names and botocore's parameter names, both ways, out of botocore's own model of S3."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Final

from botocore.model import ServiceModel, Shape

_META: Final = "x-amz-meta-"
_LOCATED: Final = (
    '<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<LocationConstraint>{}</LocationConstraint></CreateBucketConfiguration>"
)
# Of the transfer or of the answer, not of the object.
_NOT_OF_OBJECT: Final = frozenset(
    {
        "accept-ranges",
        "connection",
        "content-length",
        "content-range",
        "date",
        "etag",
        "keep-alive",
        "last-modified",
        "server",
        "transfer-encoding",
        "x-amz-id-2",
        "x-amz-request-id",
    }
)


class Shapes:
    """Looks up S3's operations once."""

    def __init__(self, model: ServiceModel) -> None:
        self._model = model
        self._names: dict[str, dict[str, tuple[str, Shape]]] = {}

    def parameters(self, operation: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Keyword arguments for those headers that the operation knows; user metadata as a map."""
        known = self._known(operation)
        found: dict[str, Any] = {}
        metadata: dict[str, str] = {}
        for name, value in headers.items():
            if name.startswith(_META):
                metadata[name.removeprefix(_META)] = value
            elif name in known:
                parameter, shape = known[name]
                found[parameter] = _convert(shape, value)
        if metadata and "Metadata" in self._members(operation):
            found["Metadata"] = metadata
        return found

    def _members(self, operation: str) -> Mapping[str, Shape]:
        shape = self._model.operation_model(operation).input_shape
        members: Mapping[str, Shape] = shape.members if shape is not None else {}
        return members

    def _known(self, operation: str) -> dict[str, tuple[str, Shape]]:
        names = self._names.get(operation)
        if names is None:
            names = {
                shape.serialization.get("name", parameter).lower(): (parameter, shape)
                for parameter, shape in self._members(operation).items()
                if shape.serialization.get("location") == "header"
            }
            self._names[operation] = names
        return names


def answer_headers(response: Mapping[str, Any]) -> dict[str, str]:
    """The object's headers in an answer, as they came."""
    return object_headers(response["ResponseMetadata"]["HTTPHeaders"])


def object_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of an answer's headers that are the object's."""
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _NOT_OF_OBJECT}


def write_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """What a client is told of a write: its version, its encryption, ..., but never checksums of the stored bytes."""
    return {
        name: value
        for name, value in headers.items()
        if name.startswith("x-amz-") and not name.startswith(("x-amz-checksum-", "x-amz-request-id", "x-amz-id-2"))
    }


def located_in(region: str) -> bytes:
    """The document of a CreateBucket."""
    return _LOCATED.format(region).encode()


def http_date(moment: datetime) -> str:
    """As in a conditional header."""
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def _convert(shape: Shape, value: str) -> Any:
    if shape.type_name == "boolean":
        return value.lower() == "true"
    if shape.type_name in ("integer", "long"):
        return int(value)
    return value
