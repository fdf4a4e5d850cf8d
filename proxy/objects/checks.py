"""What S3 demands of CompleteMultipartUpload's list of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import MIN_PART_BYTES
from s4weights.proxy.upstream.protocol import Part

from .parts import ReceivedPart


def check_part_list(
    received: Mapping[int, ReceivedPart], parts: Sequence[Part], taken: Sequence[ReceivedPart]
) -> list[ReceivedPart]:
    """Return the received parts that the client chose, in order.

    taken: the parts already encoded; they must be the first of those chosen.
    Raises: S3Error InvalidPartOrder, InvalidPart.
    """
    numbers = [part.number for part in parts]
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise S3Error("InvalidPartOrder")
    chosen: list[ReceivedPart] = []
    for part in parts:
        known = received.get(part.number)
        if known is None or known.etag != part.etag or _differs(part, known):
            raise S3Error("InvalidPart", PartNumber=str(part.number), ETag=part.etag)
        chosen.append(known)
    if not chosen:
        raise S3Error("MalformedXML")
    if chosen[: len(taken)] != list(taken):
        missing = next(part for part, known in zip(taken, [*chosen, None], strict=False) if part is not known)
        raise S3Error(
            "InvalidPart",
            f"Part {missing.number} is encoded already and cannot be left out; abort the upload.",
            PartNumber=str(missing.number),
        )
    return chosen


def _differs(part: Part, known: ReceivedPart) -> bool:
    return any(known.checksums.get(header, value) != value for header, value in part.checksums.items())


def check_part_sizes(chosen: Sequence[ReceivedPart]) -> None:
    """Raises: S3Error EntityTooSmall where a part but the last is under S3's minimum."""
    for part in chosen[:-1]:
        if part.size < MIN_PART_BYTES:
            raise S3Error(
                "EntityTooSmall",
                PartNumber=str(part.number),
                ETag=part.etag,
                ProposedSize=str(part.size),
                MinSizeAllowed=str(MIN_PART_BYTES),
            )


def check_object_size(chosen: Sequence[ReceivedPart], announced: Mapping[str, str]) -> None:
    """Raises: S3Error InvalidRequest where the parts are not as long together as x-amz-mp-object-size says."""
    size = announced.get("x-amz-mp-object-size")
    found = str(sum(part.size for part in chosen))
    if size is not None and size.strip() != found:
        raise S3Error("InvalidRequest", f"x-amz-mp-object-size: expected {size}, found parts of {found} bytes.")
