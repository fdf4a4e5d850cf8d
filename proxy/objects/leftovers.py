"""Uploads of ours in the bucket that nobody works on: of a run that was killed, or ended while the bucket was out of reach."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.protocol import Upstream

from .journal import AskedUpload, Journal
from .open_upload import abort_recorded

_log = logging.getLogger(__name__)

# Of the bucket's clock against ours.
_SKEW_S: Final = 60.0
# The longest that a call is repeated.
_ASKING_S: Final = 300.0


async def abort_left_open(upstream: Upstream, journal: Journal) -> None:
    """Abort what stands in the journal and nobody works on; where the bucket cannot be reached, later."""
    for left in await asyncio.to_thread(lambda: list(journal.left_open())):
        if not await abort_recorded(upstream, journal, left):
            return
        _log.info("leftover upload of %s/%s aborted", left.bucket, left.key)


async def abort_unanswered(upstream: Upstream, journal: Journal, max_age_s: float) -> None:
    """Abort the uploads whose beginning was never answered, once they are old.

    The bucket does not tell whose an upload is. One counts as ours where it was begun at the key and the time of the question,
    is of no other record, got no part, and is as old as any upload of ours may become.
    """
    for asked in await asyncio.to_thread(lambda: list(journal.left_asked())):
        if time.time() - asked.asked_s < max_age_s + _ASKING_S:
            continue
        try:
            await _abort_asked(upstream, await asyncio.to_thread(journal.ids), asked)
        except (S3Error, UpstreamError) as error:
            if isinstance(error, UpstreamError) or error.code != "NoSuchBucket":
                _log.warning("uploads of %s/%s could not be looked for: %s", asked.bucket, asked.key, error)
                continue
        journal.remove(asked)


async def _abort_asked(upstream: Upstream, known: set[str], asked: AskedUpload) -> None:
    for upload in await upstream.list_uploads(asked.bucket, prefix=asked.key):
        late_s = upload.initiated.timestamp() - asked.asked_s
        if upload.key != asked.key or upload.upload_id in known or not -_SKEW_S < late_s < _ASKING_S + _SKEW_S:
            continue
        if await upstream.has_parts(asked.bucket, asked.key, upload.upload_id):
            continue
        await upstream.abort_upload(asked.bucket, asked.key, upload.upload_id)
        _log.info("upload of %s/%s, begun and never answered, aborted", asked.bucket, asked.key)
