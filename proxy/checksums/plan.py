"""The checksum that a multipart upload was begun with. Source: AWS, Checking object integrity, multipart uploads.

COMPOSITE: the checksum of the parts' checksums, with -N behind it. FULL_OBJECT: that of the whole body, which for a CRC
follows from those of the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from s4weights.proxy.errors import S3Error

from .algorithms import (
    ALGORITHM_HEADER,
    COMBINERS,
    TYPE_HEADER,
    algorithm_of,
    checksum_headers,
    decode_checksum,
    encode,
    header_of,
    new_hasher,
)

COMPOSITE: Final = "COMPOSITE"
FULL_OBJECT: Final = "FULL_OBJECT"


@dataclass(frozen=True, slots=True)
class ChecksumPlan:
    """header: x-amz-checksum-... type: COMPOSITE or FULL_OBJECT."""

    header: str
    type: str

    @property
    def algorithm(self) -> str:
        """CRC32, ..."""
        return algorithm_of(self.header)

    @property
    def headers(self) -> dict[str, str]:
        """As in CreateMultipartUpload."""
        return {ALGORITHM_HEADER: self.algorithm, TYPE_HEADER: self.type}

    def join(self, parts: Sequence[tuple[str, int]]) -> dict[str, str]:
        """The object's checksum and its type by header. parts: checksum and size of each one."""
        digests = [decode_checksum(self.header, value) for value, _ in parts]
        if self.type == COMPOSITE:
            hasher = new_hasher(self.header)
            hasher.update(b"".join(digests))
            value = f"{encode(hasher.digest())}-{len(parts)}"
        else:
            combine = COMBINERS[self.header]
            whole = int.from_bytes(digests[0], "big")
            for digest, (_, size) in zip(digests[1:], parts[1:], strict=True):
                whole = combine(whole, int.from_bytes(digest, "big"), size)
            value = encode(whole.to_bytes(len(digests[0]), "big"))
        return {self.header: value, TYPE_HEADER: self.type}


def read_plan(headers: Mapping[str, str]) -> ChecksumPlan | None:
    """What the headers of CreateMultipartUpload ask for. Raises: S3Error InvalidRequest."""
    algorithm, kind = headers.get(ALGORITHM_HEADER), headers.get(TYPE_HEADER)
    if algorithm is None:
        if kind is not None:
            raise S3Error("InvalidRequest", f"{TYPE_HEADER} can only be used together with {ALGORITHM_HEADER}.")
        return None
    header = header_of(algorithm)
    only_whole, can_be_whole = header == "x-amz-checksum-crc64nvme", header in COMBINERS
    kind = (kind or (FULL_OBJECT if only_whole else COMPOSITE)).upper()
    if kind not in (COMPOSITE, FULL_OBJECT):
        raise S3Error("InvalidRequest", f"Value for {TYPE_HEADER} header is invalid.")
    if (kind == COMPOSITE and only_whole) or (kind == FULL_OBJECT and not can_be_whole):
        raise S3Error(
            "InvalidRequest",
            f"The {kind} checksum type cannot be used with the {algorithm_of(header).lower()} checksum algorithm.",
        )
    return ChecksumPlan(header, kind)


def check_part(plan: ChecksumPlan | None, announced: Mapping[str, object]) -> None:
    """Raises: S3Error InvalidRequest where a part comes with another checksum than its upload was begun with."""
    for header in announced:
        if plan is not None and header != plan.header:
            raise S3Error(
                "InvalidRequest",
                f"Checksum Type mismatch occurred, expected checksum Type: {plan.algorithm.lower()}, "
                f"actual checksum Type: {algorithm_of(header).lower()}",
            )


def check_whole(plan: ChecksumPlan | None, headers: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Compare what CompleteMultipartUpload announces with what came. found: as `join` gives it.

    Raises: S3Error InvalidRequest, BadDigest.
    """
    kind = headers.get(TYPE_HEADER)
    if kind is not None and (plan is None or kind.upper() != plan.type):
        expected = plan.type if plan is not None else "none"
        raise S3Error("InvalidRequest", f"The upload was begun with the checksum type {expected}, not {kind}.")
    for header in checksum_headers(headers):
        if plan is None or header != plan.header:
            raise S3Error("InvalidRequest", f"The upload was not begun with the checksum of {header}.")
        known = found[header]
        if headers[header] not in (known, known.partition("-")[0]):
            raise S3Error("BadDigest", f"The {plan.algorithm} you specified did not match the calculated checksum.")
