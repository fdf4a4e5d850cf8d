"""What is left to do once the outcome of a client's call is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_log = logging.getLogger(__name__)


@contextmanager
def logged(what: str, *where: str) -> Iterator[None]:
    """An error in here is logged and does not become the client's answer: an object that is visible was written, whatever
    follows, and what made a call fail must not be hidden by what failed behind it."""
    try:
        yield
    except Exception:
        _log.exception("%s: %s", "/".join(where), what)


def unheard(task: asyncio.Task[Any]) -> None:
    """For a task that has ended: its error is no fault of ours where whoever asked has gone away."""
    if not task.cancelled():
        task.exception()
