"""Any sequence of calls that hypothesis thinks of, straight and through: the same answers, call by call.

The suite runs the same sequences each time; S4W_SEQUENCES=1000 runs so many new ones.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple, rule, run_state_machine_as_test

from tests.e2e.differential import Answer, Request, Side
from tests.e2e.test_differential import MIB, NOISE, expected, quoted, sides
from tests.proxy.objects.conftest import safetensors

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
__all__ = ["sides"]  # a fixture

CHECKPOINTS = [safetensors(np.random.default_rng(seed).normal(0, 0.02, 50_000)) for seed in (1, 2)]
PIECES = [(NOISE * 18)[: 5 * MIB], safetensors(np.random.default_rng(3).normal(0, 0.02, 2 * MIB))[: 5 * MIB]]
BODIES = {"empty": b"", "text": b"some text", "noise": NOISE[:70_000], "one": CHECKPOINTS[0], "two": CHECKPOINTS[1]}
KEYS = ["a", "b b+%", "dir/ü", "dir/model.safetensors", "dir.x", "dir/z/&"]

keys = st.sampled_from(KEYS)
bodies = st.sampled_from(sorted(BODIES))
tags = st.sampled_from([{}, {"x-amz-tagging": "a=1&b=x%20y"}])
metadata = st.sampled_from([{}, {"x-amz-meta-run": "7", "content-type": "a/b"}, {"cache-control": "no-store"}])
conditions = st.sampled_from(
    [{}] * 3
    + [{"if-match": "{etag}"}, {"if-match": '"0"'}, {"if-none-match": "{etag}"}, {"if-none-match": "*"}]
    + [{"if-modified-since": "Fri, 01 Jan 2100 00:00:00 GMT"}, {"if-unmodified-since": "Wed, 01 Jan 2020 00:00:00 GMT"}]
)
ranges = (
    st.sampled_from([{}] * 3)
    | st.tuples(st.integers(0, 110_000), st.integers(0, 110_000)).map(
        lambda ends: {"range": f"bytes={min(ends)}-{max(ends)}"}
    )
    | st.integers(1, 300_000).map(lambda last: {"range": f"bytes=-{last}"})
)


class Sequences(RuleBasedStateMachine):
    """Its objects lie under a prefix of their own."""

    both: tuple[Side, Side]
    count = 0
    uploads: Bundle[tuple[str, dict[Side, str]]] = Bundle("uploads")

    def __init__(self) -> None:
        super().__init__()
        Sequences.count += 1
        self.prefix = f"sequence-{Sequences.count}/"
        self.parts: dict[str, dict[int, bytes]] = {}
        self.sent_again: set[str] = set()

    def path(self, key: str, query: str = "") -> str:
        return quoted(self.prefix + key) + (f"?{query}" if query else "")

    def send(self, request: Request, **fill: dict[Side, str]) -> list[Answer]:
        """Both ways. fill: what differs between the ways."""
        if "{etag}" in str(request.headers):
            source = request.headers.get("x-amz-copy-source", "").removeprefix("{bucket}")
            path = source or request.path.partition("?")[0]
            fill["etag"] = {side: side.send(Request("HEAD", path)).headers.get("etag", '"no"') for side in self.both}
        answers = [side.send(request, **{name: values[side] for name, values in fill.items()}) for side in self.both]
        straight, through = (answer.seen() for answer in answers)
        shown = f"{request.method} {request.path} {request.headers} {request.body[:300]!r}"
        assert expected(shown, straight) == through, f"{shown}\n    straight {straight}\n    through  {through}"
        return answers

    @rule(key=keys, body=bodies, tagged=tags, headers=metadata, first=st.sampled_from([{}, {}, {"if-none-match": "*"}]))
    def put(self, key: str, body: str, tagged: dict[str, str], headers: dict[str, str], first: dict[str, str]) -> None:
        self.send(Request("PUT", self.path(key), {**tagged, **headers, **first}, BODIES[body]))

    @rule(key=keys, body=bodies, right=st.booleans())
    def put_with_checksum(self, key: str, body: str, right: bool) -> None:
        checksum = zlib.crc32(BODIES[body]) ^ (0 if right else 1)
        value = base64.b64encode(checksum.to_bytes(4, "big")).decode()
        self.send(Request("PUT", self.path(key), {"x-amz-checksum-crc32": value}, BODIES[body]))

    @rule(method=st.sampled_from(["GET", "HEAD"]), key=keys, asked=ranges, condition=conditions)
    def read(self, method: str, key: str, asked: dict[str, str], condition: dict[str, str]) -> None:
        self.send(Request(method, self.path(key), {**asked, **condition}))

    @rule(key=keys, asked=st.sampled_from(["ETag", "ObjectSize", "ETag,ObjectSize,StorageClass"]))
    def attributes(self, key: str, asked: str) -> None:
        self.send(Request("GET", self.path(key, "attributes"), {"x-amz-object-attributes": asked}))

    @rule(source=keys, into=keys, headers=metadata, condition=st.sampled_from([{}, {"if-match": "{etag}"}]))
    def copy(self, source: str, into: str, headers: dict[str, str], condition: dict[str, str]) -> None:
        directive = {"x-amz-metadata-directive": "REPLACE"} if headers else {}
        only_if = {f"x-amz-copy-source-{name}": value for name, value in condition.items()}
        copied = {"x-amz-copy-source": "{bucket}" + self.path(source), **headers, **directive, **only_if}
        self.send(Request("PUT", self.path(into), copied))

    @rule(key=keys)
    def delete(self, key: str) -> None:
        self.send(Request("DELETE", self.path(key)))

    @rule(several=st.lists(keys, min_size=1, unique=True), quiet=st.booleans())
    def delete_many(self, several: list[str], quiet: bool) -> None:
        rows = "".join(f"<Object><Key>{(self.prefix + key).replace('&', '&amp;')}</Key></Object>" for key in several)
        body = f"<Delete><Quiet>{str(quiet).lower()}</Quiet>{rows}</Delete>".encode()
        self.send(
            Request("POST", "?delete", {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()}, body)
        )

    @rule(
        version=st.sampled_from(["", "list-type=2&"]),
        prefix=st.sampled_from(["", "dir", "dir/", "x"]),
        delimiter=st.sampled_from(["", "&delimiter=%2F"]),
        most=st.integers(1, 8),
        encoding=st.sampled_from(["", "&encoding-type=url"]),
    )
    def list(self, version: str, prefix: str, delimiter: str, most: int, encoding: str) -> None:
        """Page by page to the end."""
        query = f"{version}prefix={quoted(self.prefix + prefix)[1:]}{delimiter}&max-keys={most}{encoding}"
        answers = self.send(Request("GET", f"?{query}"))
        if version:
            while tokens := [re.search(rb"<NextContinuationToken>([^<]+)<", answer.body) for answer in answers]:
                if None in tokens:
                    break
                going = {
                    side: quoted(token[1].decode())[1:] for side, token in zip(self.both, tokens, strict=True) if token
                }
                answers = self.send(Request("GET", f"?{query}&continuation-token={{token}}"), token=going)

    @rule(key=keys)
    def tagging(self, key: str) -> None:
        self.send(Request("GET", self.path(key, "tagging")))

    @rule(target=uploads, key=keys, headers=metadata)
    def begin(self, key: str, headers: dict[str, str]) -> Any:
        answers = self.send(Request("POST", self.path(key, "uploads"), headers))
        found = [re.search(rb"<UploadId>([^<]+)<", answer.body) for answer in answers]
        ids = {side: one[1].decode() for side, one in zip(self.both, found, strict=True) if one}
        assert len(ids) == len(self.both)
        self.parts[str(ids)] = {}
        return key, ids

    @rule(
        upload=uploads, number=st.integers(1, 3), kind=st.integers(0, 1), size=st.sampled_from([5 * MIB, 5 * MIB, 100])
    )
    def send_part(self, upload: Any, number: int, kind: int, size: int) -> None:
        key, ids = upload
        body = PIECES[kind][:size]
        answers = self.send(
            Request("PUT", self.path(key, f"partNumber={number}&uploadId={{upload}}"), {}, body), upload=ids
        )
        if answers[0].status == 200:
            self.sent_again |= {str(ids)} if number in self.parts[str(ids)] else set()
            self.parts[str(ids)][number] = body

    @rule(upload=uploads)
    def list_parts(self, upload: Any) -> None:
        key, ids = upload
        if str(ids) not in self.sent_again:  # SeaweedFS lists such a part twice
            self.send(Request("GET", self.path(key, "uploadId={upload}")), upload=ids)

    @rule(target=uploads, upload=consumes(uploads), left_out=st.sampled_from([0, 0, 0, 1, 2]))
    def complete(self, upload: Any, left_out: int) -> Any:
        """Without one of the parts, too; an upload that is refused goes on."""
        key, ids = upload
        named = {number: body for number, body in self.parts[str(ids)].items() if number != left_out}
        rows = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{hashlib.md5(body).hexdigest()}</ETag></Part>"
            for number, body in sorted(named.items())
        )
        body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()
        answers = self.send(Request("POST", self.path(key, "uploadId={upload}"), {}, body), upload=ids)
        if answers[0].status != 200:
            return upload
        # Where numbers were left out, servers do not agree on what is part 1.
        for number in (*range(1, len(named) + 1), 9) if sorted(named) == list(range(1, len(named) + 1)) else ():
            self.send(Request("GET", self.path(key, f"partNumber={number}")))
        return multiple()

    @rule(upload=consumes(uploads))
    def abort(self, upload: Any) -> None:
        key, ids = upload
        self.send(Request("DELETE", self.path(key, "uploadId={upload}")), upload=ids)


def test_any_sequence_of_calls_answers_alike(sides: tuple[Side, Side]) -> None:
    more = int(os.environ.get("S4W_SEQUENCES", "0"))
    Sequences.both = sides
    run_state_machine_as_test(
        Sequences,
        settings=settings(
            max_examples=more or 25,
            stateful_step_count=25,
            derandomize=not more,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
