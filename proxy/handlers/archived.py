"""Objects in a class whose bodies cannot be read until they are restored: GLACIER, DEEP_ARCHIVE, ..."""

from __future__ import annotations

from urllib.parse import quote

from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error
from s4weights.proxy.objects.marker import is_container
from s4weights.proxy.upstream.protocol import Forwarded, path_of

_RESTORE = "x-amz-restore"


async def check_is_plain(context: Context, refused: S3Error) -> None:
    """Whether the bucket's own answer is the client's: a body that is no container.

    Size and ETag of a container stand in its trailer, which cannot be read. Raises: refused, where it has another reason
    or is of a container; with x-amz-restore, by which a client sees that it is being restored.
    """
    if refused.code != "InvalidObjectState":
        raise refused
    query = f"versionId={quote(context.version_id, safe='-._~')}" if context.version_id else ""
    answer = await context.upstream.forward(Forwarded("HEAD", path_of(context.bucket, context.key), query))
    if answer.release is not None:
        answer.release()
    if answer.status != 200 or is_container(answer.headers):
        if _RESTORE in answer.headers:
            refused.headers = {**refused.headers, _RESTORE: answer.headers[_RESTORE]}
        raise refused
