"""Times in the bucket's answers: botocore's own reading of them takes most of the time of a listing of a thousand rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from aiobotocore.session import AioSession, get_session
from botocore.utils import parse_timestamp


def quick_session() -> AioSession:
    """A session whose clients read ISO 8601, S3's form in documents, by the standard library."""
    session = get_session()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=read_timestamp)
    return session


def read_timestamp(value: Any) -> datetime:
    """Every form that botocore reads; one without a zone is UTC. Raises: ValueError."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        moment = cast(datetime, parse_timestamp(value))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
