"""The quick reading of times equals botocore's own."""

from __future__ import annotations

from datetime import UTC

import pytest
from botocore.utils import parse_timestamp

from s4weights.proxy.upstream.bucket.timestamps import quick_session, read_timestamp


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-02T03:04:05.678Z",
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05+01:00",
        "2026-01-02T03:04:05",
        "Fri, 02 Jan 2026 03:04:05 GMT",
        "1767323045",
        1767323045.5,
    ],
)
def test_every_form_is_read_as_botocore_does(value):
    theirs = parse_timestamp(value)
    assert read_timestamp(value) == (theirs if theirs.tzinfo else theirs.replace(tzinfo=UTC))


def test_what_is_no_time_is_refused():
    with pytest.raises(ValueError, match="Invalid timestamp"):
        read_timestamp("yesterday")


def test_clients_of_the_session_use_it():
    factory = quick_session().get_component("response_parser_factory")
    assert factory._defaults["timestamp_parser"] is read_timestamp
