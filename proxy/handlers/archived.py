"""Objects in a class whose bodies cannot be read until they are restored: GLACIER, DEEP_ARCHIVE, ..."""

from __future__ import annotations

from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error
from s4weights.proxy.objects.marker import is_container
from s4weights.proxy.objects.types import LogicalObject
from s4weights.proxy.upstream.protocol import Forwarded, path_of, version_query

_RESTORE = "x-amz-restore"


async def find_unless_archived(context: Context) -> LogicalObject | None:
    """The object; None where it cannot be read, and the bucket's own answer is the client's: its body is no container.

    Size and ETag of a container stand in its trailer. Raises: S3Error; InvalidObjectState with x-amz-restore, by which a
    client sees that it is being restored.
    """
    try:
        return await context.objects.resolve(context.bucket, context.key, version_id=context.version_id)
    except S3Error as error:
        if error.code != "InvalidObjectState":
            raise
        refused = error
    path = path_of(context.bucket, context.key)
    answer = await context.upstream.forward(Forwarded("HEAD", path, version_query(context.version_id)))
    answer.release()
    if answer.status == 200 and not is_container(answer.headers):
        return None
    if _RESTORE in answer.headers:
        refused.headers = {**refused.headers, _RESTORE: answer.headers[_RESTORE]}
    raise refused
