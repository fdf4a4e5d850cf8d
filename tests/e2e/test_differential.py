"""The same requests straight and through: status, headers and bodies are the same, for checkpoints and for other bodies."""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.e2e.conftest import Endpoint
from tests.e2e.differential import Request, Seen, Side
from tests.e2e.proxy_process import ACCESS_KEY, SECRET_KEY
from tests.proxy.objects.conftest import safetensors
from tests.servers import ACCESS_KEY as STRAIGHT_ACCESS_KEY
from tests.servers import SECRET_KEY as STRAIGHT_SECRET_KEY

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
MIB = 1 << 20
NOISE = random.Random(5).randbytes(300_000)
CHECKPOINT = safetensors(np.random.default_rng(5).normal(0, 0.02, MIB))
OBJECTS = {
    "empty": b"",
    "one": b"x",
    "noise": NOISE,
    "model": CHECKPOINT,
    "dir/a b+c%&=ü": CHECKPOINT[: 3 * MIB // 2],
    "dir/sub/z": NOISE[:1000],
}


@pytest.fixture(scope="module")
def sides(endpoint: Endpoint, request: pytest.FixtureRequest) -> tuple[Side, Side]:
    """Each a bucket of its own of the same server."""
    if endpoint.directory is not None:
        pytest.skip("there is nothing straight beside a local directory")
    of_module = request.module.__name__.rpartition("_")[2]
    buckets = [f"straight-{of_module}", f"through-{of_module}"]
    for bucket in buckets:
        endpoint.straight.create_bucket(Bucket=bucket)
    straight = Side(endpoint.straight.meta.endpoint_url, STRAIGHT_ACCESS_KEY, STRAIGHT_SECRET_KEY, buckets[0])
    return straight, Side(endpoint.proxy.endpoint, ACCESS_KEY, SECRET_KEY, buckets[1])


def quoted(key: str) -> str:
    return "/" + "".join(
        c if (c.isalnum() and c.isascii()) or c in "/-._~" else "".join(f"%{b:02X}" for b in c.encode()) for c in key
    )


def writes() -> Iterator[Request]:
    meta = {"content-type": "x/y", "cache-control": "no-store", "content-language": "de", "x-amz-meta-run": "7 a"}
    for key, body in OBJECTS.items():
        yield Request("PUT", quoted(key), meta, body)
    yield Request("PUT", "/plain", {}, NOISE)
    yield Request("PUT", "/no-such/../dots", {}, b"x")


def reads() -> Iterator[Request]:
    ranges = [
        "0-0",
        "0-",
        "1-9",
        "-1",
        "-7",
        "-0",
        "99-100",
        "100000-100009",
        "299999-",
        "300000-",
        "9999999-",
        "-99999999",
    ]
    ranges += ["0-1,5-6", "x", "1048570-1048585"]
    for key in ("empty", "one", "noise", "model", "dir/a b+c%&=ü", "missing"):
        yield Request("GET", quoted(key))
        yield Request("HEAD", quoted(key))
        for one in ranges:
            yield Request("GET", quoted(key), {"range": f"bytes={one}"})
    for method, key in itertools.product(("GET", "HEAD"), ("noise", "model", "missing")):
        for headers in (
            {"if-match": '"0"'},
            {"if-match": "*"},
            {"if-none-match": '"0"'},
            {"if-none-match": "*"},
            {"if-modified-since": "Wed, 01 Jan 2020 00:00:00 GMT"},
            {"if-modified-since": "Fri, 01 Jan 2100 00:00:00 GMT"},
            {"if-unmodified-since": "Wed, 01 Jan 2020 00:00:00 GMT"},
            {"if-unmodified-since": "Fri, 01 Jan 2100 00:00:00 GMT"},
            {"if-match": '"0"', "range": "bytes=0-5"},
            {"if-none-match": '"0"', "if-modified-since": "Fri, 01 Jan 2100 00:00:00 GMT"},
            {"if-match": "{etag}"},
            {"if-none-match": "{etag}"},
            {"if-match": "{etag}", "if-unmodified-since": "Wed, 01 Jan 2020 00:00:00 GMT"},
        ):
            yield Request(method, quoted(key), headers)
        yield Request(method, f"{quoted(key)}?response-content-type=a%2Fb&response-cache-control=max-age%3D1")
        yield Request(method, f"{quoted(key)}?response-content-disposition=attachment%3B%20filename%3D%22x%22")
        yield Request(method, f"{quoted(key)}?partNumber=1")
        yield Request(method, f"{quoted(key)}?partNumber=2")


def listings() -> Iterator[Request]:
    for version, prefix, delimiter, most, encoding in itertools.product(
        ("", "list-type=2"), ("", "dir/", "d", "zzz"), ("", "%2F"), ("", "2", "0"), ("", "url")
    ):
        query = [version, f"prefix={prefix}", f"delimiter={delimiter}" if delimiter else ""]
        query += [f"max-keys={most}" if most else "", f"encoding-type={encoding}" if encoding else ""]
        yield Request("GET", f"?{'&'.join(item for item in query if item)}")
    for query in (
        "list-type=2&start-after=model",
        "marker=model",
        "list-type=2&max-keys=x",
        "max-keys=-1",
        "encoding-type=latin1",
    ):
        yield Request("GET", f"?{query}")
    yield Request("HEAD", "")
    yield Request("GET", "?location")
    yield Request("GET", "?versioning")
    yield Request("GET", "?uploads")
    yield Request("GET", "?policy")
    yield Request("GET", "?cors")


def copies_and_deletes() -> Iterator[Request]:
    for key in ("noise", "model"):
        source = {"x-amz-copy-source": f"{{bucket}}{quoted(key)}"}
        yield Request("PUT", f"/copy-{key}", source)
        yield Request("GET", f"/copy-{key}")
        replaced = {**source, "x-amz-metadata-directive": "REPLACE", "x-amz-meta-new": "1", "content-type": "z/z"}
        yield Request("PUT", f"/copy-{key}", replaced)
        yield Request("HEAD", f"/copy-{key}")
        yield Request("PUT", quoted(key), source)
        yield Request("PUT", f"/copy-{key}", {**source, "x-amz-copy-source-if-match": '"0"'})
        yield Request("PUT", f"/copy-{key}", {**source, "x-amz-copy-source-if-none-match": "{etag}"})
        yield Request("PUT", f"/first-{key}", {"if-none-match": "*"}, OBJECTS[key])
        yield Request("PUT", f"/first-{key}", {"if-none-match": "*"}, OBJECTS[key])
        yield Request("PUT", f"/first-{key}", {"if-match": '"0"'}, OBJECTS[key])
    yield Request("PUT", "/copy", {"x-amz-copy-source": "{bucket}/missing"})
    yield Request("PUT", "/copy", {"x-amz-copy-source": "no-such-bucket-at-all/k"})
    yield Request("PUT", "/k", {"content-md5": "AAAAAAAAAAAAAAAAAAAAAA=="}, b"x")
    yield Request("PUT", "/k", {"content-md5": "nonsense"}, b"x")
    yield Request("PUT", "/k", {"x-amz-checksum-crc32": "AAAAAA=="}, b"x")
    for key in ("copy-noise", "copy-model", "missing"):
        yield Request("DELETE", f"/{key}")
        yield Request("GET", f"/{key}")
    keys = b"".join(b"<Object><Key>%s</Key></Object>" % key for key in (b"first-noise", b"first-model", b"missing"))
    yield Request("POST", "?delete", {}, b"<Delete>" + keys + b"</Delete>")
    yield Request("POST", "?delete", {}, b"<Delete><Quiet>true</Quiet>" + keys + b"</Delete>")
    yield Request("POST", "?delete", {}, b"no document")


Change = Callable[[Seen], Seen]


def without(*headers: str) -> Change:
    return lambda seen: replace(seen, headers={name: one for name, one in seen.headers.items() if name not in headers})


def with_headers(more: dict[str, str]) -> Change:
    return lambda seen: replace(seen, headers=seen.headers | more)


def error(status: int, code: str) -> Change:
    return lambda _: Seen(status, {}, code)


def with_checksum_type(seen: Seen) -> Seen:
    if not any(name.startswith("x-amz-checksum-") for name in seen.headers):
        return seen
    return replace(seen, headers={"x-amz-checksum-type": "FULL_OBJECT"} | seen.headers)


def no_range_of_nothing(seen: Seen) -> Seen:
    is_empty = seen.status == 200 and seen.headers.get("content-length") == "0"
    return Seen(416, {"content-range": "bytes */0"}, "") if is_empty else seen


def with_next_part(seen: Seen) -> Seen:
    numbers = re.findall(r"'PartNumber': \['(\d+)'\]", seen.body)
    if not numbers or "NextPartNumberMarker" in seen.body:
        return seen
    return replace(seen, body=seen.body.replace("'Part': ", f"'NextPartNumberMarker': ['{numbers[-1]}'], 'Part': "))


def said(old: str, new: str) -> Change:
    return lambda seen: replace(seen, body=re.sub(old, new, seen.body))


_EMPTY_CHECKSUM = {"x-amz-checksum-crc64nvme": "AAAAAAAAAAA=", "x-amz-checksum-type": "FULL_OBJECT"}
# Where SeaweedFS departs from S3's documents and the proxy keeps to them: what it ought to have answered.
DEPARTURES: list[tuple[str, str, Change]] = [
    (r"encoding-type=latin1", "only `url` is an encoding", error(400, "InvalidArgument")),
    (
        r"GET \?(?!\S*(list-type=2|delimiter=\S))",
        "NextMarker comes only with a delimiter",
        said(", 'NextMarker': \\[[^]]*\\]", ""),
    ),
    (r"GET \?uploads", "MaxUploads is at most 1,000", said("10000", "1000")),
    (r"HEAD .*'range': ", "an empty body has no range, in HEAD as in GET", no_range_of_nothing),
    (r"GET \S+\?uploadId=", "MaxParts is at most 1,000", said("10000", "1000")),
    (r"GET \S+\?uploadId=", "the last part of a page is named", with_next_part),
    (r"PUT (?!\S*uploadId=).*x-amz-(checksum|trailer)", "a checksum is answered with its type", with_checksum_type),
    (r"(GET|HEAD) \S*safetensors.*x-amz-checksum-mode", "a checksum is answered with its type", with_checksum_type),
    (r"PUT \S+/ .*crc64nvme': 'A{11}='", "a folder's marker is an object", with_headers(_EMPTY_CHECKSUM)),
    (r"partNumber=(0|10001)\b", "a part's number is 1 to 10,000", error(400, "InvalidArgument")),
    (r"/model\?partNumber=1", "only what was uploaded in parts counts them", without("x-amz-mp-parts-count")),
    (r"PUT .*copy-source", "CopyObject: the ETag stands in the document alone", without("etag")),
    (r"'content-md5': 'nonsense'", "a Content-MD5 that is none is InvalidDigest", error(400, "InvalidDigest")),
    (r"<CompleteMultipartUpload></Comp", "parts must be named", error(400, "MalformedXML")),
]


def expected(shown: str, straight: Seen) -> Seen:
    """What S3 answers where the server answered so."""
    for pattern, _, change in DEPARTURES:
        if re.search(pattern, shown):
            straight = change(straight)
    return straight


def compare(sides: tuple[Side, Side], requests: Iterator[Request]) -> list[str]:
    differences = []
    count = 0
    for request in requests:
        count += 1
        key = request.path.partition("?")[0] if "copy-source" not in str(request.headers) else "/model"
        etags = (
            [side.send(Request("HEAD", key)).headers.get("etag", '"none"') for side in sides]
            if "{etag}" in str(request.headers)
            else ["", ""]
        )
        straight, through = (side.send(request, etag=etag).seen() for side, etag in zip(sides, etags, strict=True))
        shown = f"{request.method} {request.path} {request.headers}"
        if expected(shown, straight) != through:
            differences.append(f"{shown}\n    straight {straight}\n    through  {through}")
    assert count > 5
    return differences


@pytest.mark.parametrize("requests", [writes, reads, listings, copies_and_deletes])
def test_both_ways_answer_alike(sides, requests):
    if requests is not writes:
        for request in writes():
            for side in sides:
                side.send(request)
    differences = compare(sides, requests())
    assert not differences, "\n".join(differences)


def test_a_range_that_ends_before_it_starts_is_none(sides):
    """RFC 9110, 14.1.1. SeaweedFS answers 416."""
    straight, through = sides
    for side in sides:
        side.send(Request("PUT", "/model", {}, CHECKPOINT))
    ignored = through.send(Request("GET", "/model", {"range": "bytes=5-3"}))
    assert ignored.seen() == straight.send(Request("GET", "/model")).seen()


def parts_requests(upload: str, key: str, pieces: list[bytes]) -> Iterator[Request]:
    rows = b"".join(
        b"<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>" % (number, hashlib.md5(piece).hexdigest().encode())
        for number, piece in enumerate(pieces, 1)
    )
    target = f"/{key}?uploadId={upload}"
    for number in (2, 1, 3):
        yield Request("PUT", f"{target}&partNumber={number}", {}, pieces[number - 1])
    yield Request("PUT", f"{target}&partNumber=0", {}, b"x")
    yield Request("PUT", f"{target}&partNumber=10001", {}, b"x")
    for wrong in (rows.replace(b"<ETag>", b"<ETag>0", 1), rows.replace(b">2<", b">4<")):
        yield Request("POST", target, {}, b"<CompleteMultipartUpload>" + wrong + b"</CompleteMultipartUpload>")
    yield Request("POST", target, {}, b"<CompleteMultipartUpload></CompleteMultipartUpload>")
    yield Request("PUT", f"/{key}", {}, b"in the way")
    whole = b"<CompleteMultipartUpload>" + rows + b"</CompleteMultipartUpload>"
    yield Request("POST", target, {"if-none-match": "*"}, whole)
    yield Request("POST", target, {"if-match": '"0123"'}, whole)
    yield Request("GET", f"/{key}")
    yield Request("PUT", f"{target}&partNumber=1", {}, pieces[0])
    yield Request("POST", target, {}, whole)
    for method, number in itertools.product(("GET", "HEAD"), ("1", "2", "3", "4")):
        yield Request(method, f"/{key}?partNumber={number}")
    yield Request("GET", f"/{key}")
    yield Request("HEAD", f"/{key}")
    yield Request("GET", f"/{key}", {"range": "bytes=5242870-5242890"})
    yield Request("PUT", f"{target}&partNumber=1", {}, b"x")


@pytest.mark.parametrize("kind", ["noise", "model"])
def test_an_upload_in_parts_answers_alike(sides, kind):
    data = NOISE * 40 if kind == "noise" else CHECKPOINT * 6
    pieces = [data[: 5 * MIB], data[5 * MIB : 10 * MIB], data[10 * MIB :]]
    answers = []
    for side in sides:
        begun = side.send(Request("POST", f"/parts-{kind}?uploads", {"x-amz-meta-a": "b", "content-type": "x/y"}))
        upload = re.search(rb"<UploadId>([^<]+)<", begun.body)
        assert upload is not None
        requests = parts_requests(upload[1].decode(), f"parts-{kind}", pieces)
        answers.append([(f"{one.method} {one.path} {one.body[:60]!r}", side.send(one).seen()) for one in requests])
    different = [
        (shown, one, two) for (shown, one), (_, two) in zip(*answers, strict=True) if expected(shown, one) != two
    ]
    assert not different, "\n".join(map(str, different))
