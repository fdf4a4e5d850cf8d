"""Lines of the log: ids, one line a message, and nothing that signs."""

from __future__ import annotations

import json
import logging

import pytest

from s4weights.proxy.access_log import mask_query
from s4weights.proxy.logs import JsonFormatter, TextFormatter, new_request_id, request_id


def record(message: str, **extra: object) -> logging.LogRecord:
    one = logging.LogRecord("s4weights.x", logging.WARNING, "f.py", 1, message, (), None)
    one.__dict__.update(extra)
    return one


@pytest.fixture
def identity():
    token = request_id.set(new_request_id())
    yield request_id.get()
    request_id.reset(token)


def test_a_line_of_text_carries_the_request_and_cannot_be_forged(identity):
    line = TextFormatter().format(record("upload of b/k\r\n2026 ERROR forged\x1b[2J\u2028 aborted"))
    assert f"[{identity}]" in line
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert r"b/k\x0d\x0a2026" in line


def test_a_line_of_json_carries_the_request_and_its_fields(identity):
    line = JsonFormatter().format(record("a\nb", fields={"status": 200}))
    assert "\n" not in line
    fields = json.loads(line)
    assert (fields["request_id"], fields["message"], fields["status"]) == (identity, "a\nb", 200)


def test_lines_outside_of_requests_say_so():
    assert json.loads(JsonFormatter().format(record("x")))["request_id"] == "-"
    assert "[-]" in TextFormatter().format(record("x"))


def test_a_traceback_stays_below_its_line(identity):
    try:
        raise ValueError("why")
    except ValueError as error:
        one = record("failed", exc_info=(ValueError, error, error.__traceback__))
    assert "ValueError: why" in TextFormatter().format(one)
    assert "ValueError: why" in json.loads(JsonFormatter().format(one))["exception"]


@pytest.mark.parametrize(
    "name",
    [
        "X-Amz-Signature",
        "x-amz-signature",
        "X%2DAmz%2dSignature",
        "%58-Amz-Security-Token",
        "X-Amz-Credential",
        "Signature",
        "AWSAccessKeyId",
        "+X-Amz-Signature",
        "x-amz-server-side-encryption-customer-key",
        "X-Amz-Copy-Source-Server-Side-Encryption-Customer-Key",
        "X-Amz-S3session-Token",
        "x-amz-mfa",
        "x-amz-meta-note",
    ],
)
def test_secrets_in_a_query_are_masked_however_they_are_spelt(name):
    assert "hush" not in mask_query(f"a=1&{name}=hush=hush&b=2")
    assert mask_query(f"a=1&{name}=hush&b=2").startswith("a=1&")


def test_other_parameters_stay():
    assert mask_query("prefix=a%20b&list-type=2&X-Amz-SignedHeaders=host&uploads") == (
        "prefix=a%20b&list-type=2&X-Amz-SignedHeaders=host&uploads"
    )
