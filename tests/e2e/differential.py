"""Raw signed requests, sent twice: straight to the bucket, and through the proxy to another bucket of the same server."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

# What a client acts on. The rest (request ids, dates of the answer, the server's name) is nobody's business.
_HEADERS = (
    "accept-ranges",
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
    "x-amz-mp-parts-count",
)
# In documents: values that differ from run to run, or name the bucket.
_MOVING = re.compile(
    rb"<(UploadId|UploadIdMarker|NextUploadIdMarker|RequestId|HostId|LastModified|Initiated|Location|Resource|Message|"
    rb"NextContinuationToken|ContinuationToken|BucketName|Bucket|Name|Owner|Initiator|Key|ID|DisplayName)>"
    rb"[^<]*(<ID>[^<]*</ID>(<DisplayName>[^<]*</DisplayName>)?)?</\1>"
)


@dataclass(frozen=True)
class Request:
    """path: below the bucket, raw, with its query. {upload}: filled in by the runner."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def seen(self) -> tuple[int, dict[str, str], str]:
        """What must be the same both ways."""
        shown = {name: self.headers[name] for name in _HEADERS if name in self.headers}
        if self.status not in (200, 206) or "last-modified" not in self.headers:
            shown.pop("accept-ranges", None)  # of an object alone
        shown |= {name: value for name, value in self.headers.items() if name.startswith("x-amz-meta-")}
        if "xml" not in self.headers.get("content-type", ""):
            return self.status, shown, hashlib.sha256(self.body).hexdigest()
        for name in ("content-length", "content-type"):
            shown.pop(name, None)
        return self.status, shown, document(self.body)


def document(body: bytes) -> str:
    """A document's texts with their elements, one a line, without what moves; of an error its code alone."""
    if b"<Error>" in body:
        found = re.search(rb"<Code>([^<]*)</Code>", body)
        return found[1].decode() if found else ""
    text = _MOVING.sub(b"", body).replace(b"&#34;", b"").replace(b"&quot;", b"").decode()
    return "\n".join(sorted(f"{name}={value}" for name, value in re.findall(r"<(\w+)>([^<>]+)</", text)))


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
        S3SigV4Auth(self._credentials, "s3", "us-east-1").add_auth(signed)
        with contextlib.closing(http.client.HTTPConnection(urlsplit(self._endpoint).netloc, timeout=60)) as wire:
            sent = {**dict(signed.headers.items()), "content-length": str(len(request.body))}
            wire.request(request.method, path, request.body, sent)
            answer = wire.getresponse()
            known = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, known, answer.read())
