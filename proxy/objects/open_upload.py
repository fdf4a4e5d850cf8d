"""An upstream upload that is never forgotten: in the journal before its first part, out of it after its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.threads import in_thread
from s4weights.proxy.upstream.protocol import Headers, Stored, Upstream

from .afterwards import logged
from .journal import AskedUpload, Journal, OpenUpload

_log = logging.getLogger(__name__)
_COMPLETE_ATTEMPTS = 3
_COMPLETE_PAUSE_S = 0.5


async def begin_upload(upstream: Upstream, journal: Journal, bucket: str, key: str, headers: Headers) -> OpenUpload:
    """Begin an upload upstream and record it; one that cannot be recorded is aborted at once."""
    asked = await in_thread(lambda: journal.ask(bucket, key), undo=journal.remove)
    doubts: list[None] = []
    try:
        upload_id = await upstream.create_upload(bucket, key, headers, on_repeat=lambda: doubts.append(None))
    except S3Error:
        _end_question(journal, asked, in_doubt=bool(doubts))
        raise
    except BaseException:
        _end_question(journal, asked, in_doubt=True)
        raise
    try:
        upload = await in_thread(lambda: journal.add(bucket, key, upload_id), undo=journal.let_go)
    except BaseException:
        try:
            await upstream.abort_upload(bucket, key, upload_id)
        except (S3Error, UpstreamError) as error:
            _log.warning("upload %s of %s/%s is left open upstream: %s", upload_id, bucket, key, error)
            doubts.append(None)
        raise
    finally:
        _end_question(journal, asked, in_doubt=bool(doubts))
    return upload


def _end_question(journal: Journal, asked: AskedUpload, *, in_doubt: bool) -> None:
    if in_doubt:
        journal.let_go(asked)  # there may be an upload that nobody knows of: see leftovers.py
    else:
        journal.remove(asked)


async def complete_recorded(
    journal: Journal,
    upload: OpenUpload,
    complete: Callable[[], Awaitable[Stored]],
    find_completed: Callable[[], Awaitable[Stored | None]],
    *,
    sent_again: Callable[[], bool] = lambda: False,
) -> Stored:
    """Complete an upload, again where the answer is lost.

    find_completed: looks for the object where the upload is gone: an earlier try, ours or the client library's own, may have
    completed it and lost its answer. None: it did not. sent_again: whether a part may be another one in the bucket than was
    acknowledged last.
    """
    gone = {"NoSuchUpload"}
    for attempt in range(1, _COMPLETE_ATTEMPTS + 1):
        try:
            stored = await complete()
            break
        except UpstreamError as error:
            gone.add("PreconditionFailed")  # perhaps by the object that this very call made
            if attempt == _COMPLETE_ATTEMPTS or error.was_repeated:
                raise
            await asyncio.sleep(_COMPLETE_PAUSE_S * attempt)
        except S3Error as error:
            if error.after_fault:
                gone.add("PreconditionFailed")
            found = await find_completed() if error.code in gone else None
            if found is None and error.code == "InvalidPart" and not sent_again():
                # It acknowledged them all: an answer was changed on its way, and the next try begins anew.
                raise UpstreamError(f"{upload.bucket}/{upload.key}: the bucket does not know its own parts") from error
            if found is None:
                raise
            stored = found
            break
    with logged("the record of a completed upload stays", upload.bucket, upload.key):
        journal.remove(upload)
    return stored


async def abort_recorded(upstream: Upstream, journal: Journal, upload: OpenUpload) -> bool:
    """Drop an upload upstream; where that fails (False) the journal keeps its record, for another try."""
    try:
        await upstream.abort_upload(upload.bucket, upload.key, upload.upload_id)
    except (S3Error, UpstreamError) as error:
        if not (isinstance(error, S3Error) and error.code in ("NoSuchUpload", "NoSuchBucket")):
            _log.warning("upload of %s/%s could not be aborted upstream: %s", upload.bucket, upload.key, error)
            journal.let_go(upload)
            return False
    except BaseException:
        journal.let_go(upload)
        raise
    journal.remove(upload)
    return True
