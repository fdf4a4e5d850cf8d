"""Parameters go on as they were read, encoded as SigV4 wants it."""

from __future__ import annotations

import pytest

from s4weights.proxy.http.query import read_query, write_query


@pytest.mark.parametrize(
    ("received", "sent"),
    [
        ("versions&prefix=team/", "versions&prefix=team%2F"),
        ("acl=", "acl"),
        ("%78-tool=1", "x-tool=1"),
        ("prefix=secret%2F&prefix=team%2F", "prefix=team%2F"),
        ("prefix=a+b%2Bc%20d&max-keys=2", "prefix=a%20b%2Bc%20d&max-keys=2"),
        ("prefix=%C3%BC~*", "prefix=%C3%BC~%2A"),
        ("", ""),
    ],
)
def test_a_query_is_sent_on_as_it_was_read(received, sent):
    assert write_query(read_query(received).items()) == sent
