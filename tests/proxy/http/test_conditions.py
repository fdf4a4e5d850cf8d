"""Conditions on a copy's source: there is no 304, what fails is 412."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.conditions import check_copy_source, read_conditions
from s4weights.proxy.upstream.protocol import ObjectInfo

INFO = ObjectInfo(1, "abc", datetime(2026, 1, 1, 12, 0, 0, 500_000, UTC))
AT, BEFORE = "Thu, 01 Jan 2026 12:00:00 GMT", "Thu, 01 Jan 2026 11:59:59 GMT"


@pytest.mark.parametrize(
    ("name", "holds", "fails"),
    [
        ("if-match", '"abc"', '"x"'),
        ("if-none-match", '"x"', '"abc"'),
        ("if-modified-since", BEFORE, AT),
        ("if-unmodified-since", AT, BEFORE),
    ],
)
def test_every_condition_of_a_copy(name, holds, fails):
    prefix = "x-amz-copy-source-"
    check_copy_source(read_conditions({prefix + name: holds, name: fails}, prefix), INFO)
    with pytest.raises(S3Error) as error:
        check_copy_source(read_conditions({prefix + name: fails, name: holds}, prefix), INFO)
    assert (error.value.code, error.value.status) == ("PreconditionFailed", 412)
