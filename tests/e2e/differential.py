"""Raw signed requests, sent twice: straight to the bucket, and through the proxy to another bucket of the same server."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
from dataclasses import dataclass, field
from urllib.parse import unquote_plus, urlsplit
from xml.etree import ElementTree

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

# What a client acts on. The rest (request ids, dates of the answer, the server's name) is nobody's business.
_HEADERS = frozenset(
    {
        "accept-ranges",
        "allow",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-range",
        "content-type",
        "etag",
        "expires",
        "location",
        "x-amz-checksum-type",
        "x-amz-delete-marker",
        "x-amz-mp-parts-count",
        "x-amz-storage-class",
        "x-amz-tagging-count",
        "x-amz-website-redirect-location",
    }
)
_PREFIXES = ("x-amz-meta-", "x-amz-checksum-", "x-amz-server-side-encryption", "x-amz-object-lock-")
# Of these it counts that they are there: the values differ from run to run.
_MOVING_HEADERS = frozenset({"last-modified", "x-amz-version-id", "x-amz-copy-source-version-id"})
_MOVING = frozenset(
    {
        "ContinuationToken",
        "HostId",
        "Initiated",
        "LastModified",
        "NextContinuationToken",
        "NextUploadIdMarker",
        "NextVersionIdMarker",
        "RequestId",
        "UploadId",
        "UploadIdMarker",
        "VersionId",
        "VersionIdMarker",
    }
)
# They name the bucket or its owner, who are others on the other side.
_NAMES = frozenset({"Bucket", "BucketName", "Initiator", "Location", "Message", "Name", "Owner", "Resource"})


@dataclass(frozen=True)
class Request:
    """path: below the bucket, raw, with its query. {upload}: filled in by the runner."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Seen:
    """status; headers that count; the body's digest, or what a document says."""

    status: int
    headers: dict[str, str]
    body: str


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def seen(self) -> Seen:
        """What must be the same both ways."""
        shown = {name: value for name, value in self.headers.items() if name in _HEADERS or name.startswith(_PREFIXES)}
        shown |= dict.fromkeys(_MOVING_HEADERS & self.headers.keys(), "there")
        if self.status not in (200, 206) or "last-modified" not in self.headers:
            shown.pop("accept-ranges", None)  # of an object alone
        if self.status == 304:
            shown.pop("last-modified", None)  # the ETag is enough
        if "xml" not in self.headers.get("content-type", ""):
            return Seen(self.status, shown, hashlib.sha256(self.body).hexdigest())
        for name in ("accept-ranges", "content-length", "content-type"):
            shown.pop(name, None)
        return Seen(self.status, shown, document(self.body))


def document(body: bytes) -> str:
    """A document as text, without what moves: children of one name in their order. Of an error its code alone."""
    if not body:
        return ""
    root = ElementTree.fromstring(body)
    code = root.findtext("Code")
    return code if code is not None else repr(_content(root, is_quoted=b"<EncodingType>url<" in body))


def _content(element: ElementTree.Element, *, is_quoted: bool) -> object:
    if not len(element):
        text = (element.text or "").strip().strip('"')
        # A blank is `+` or `%20`; clients take both.
        return unquote_plus(text) if is_quoted else text
    children: dict[str, list[object]] = {}
    for child in element:
        name = child.tag.rpartition("}")[2]
        # An element without anything in it says as much as none.
        if name not in _NAMES and (len(child) or child.text):
            children.setdefault(name, []).append("there" if name in _MOVING else _content(child, is_quoted=is_quoted))
    return dict(sorted(children.items()))


class _Auth(S3SigV4Auth):
    """Signs the payload's digest that a recorded request names: of a body in chunks it is none."""

    def payload(self, request: AWSRequest) -> str:
        return str(request.context.get("digest") or super().payload(request))


class Side:
    """One of the two ways to the server."""

    def __init__(self, endpoint: str, access_key: str, secret_key: str, bucket: str) -> None:
        self._endpoint = endpoint
        self._credentials = Credentials(access_key, secret_key)
        self.bucket = bucket

    def send(self, request: Request, **fill: str) -> Answer:
        """Sign and send one request. fill: for {names} in path and headers; {bucket} is known."""
        path = f"/{self.bucket}{request.path}"
        headers = dict(request.headers)
        for name, value in {"bucket": self.bucket, **fill}.items():
            path = path.replace(f"{{{name}}}", value)
            headers = {key: one.replace(f"{{{name}}}", value) for key, one in headers.items()}
        signed = AWSRequest(method=request.method, url=f"{self._endpoint}{path}", data=request.body, headers=headers)
        signed.context["digest"] = headers.get("x-amz-content-sha256")
        _Auth(self._credentials, "s3", "us-east-1").add_auth(signed)
        with contextlib.closing(http.client.HTTPConnection(urlsplit(self._endpoint).netloc, timeout=60)) as wire:
            sent = {**dict(signed.headers.items()), "content-length": str(len(request.body))}
            wire.request(request.method, path, request.body, sent)
            answer = wire.getresponse()
            known = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, known, answer.read())
