"""What a client's key may reach: prefixes of BUCKET/KEY, for reading alone or for both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from s4weights.proxy.errors import S3Error

# Calls on a bucket that answer for the keys below the `prefix` of their query.
_LISTINGS = frozenset({"ListObjects", "ListObjectsV2", "ListObjectVersions", "ListMultipartUploads"})
# Calls on a bucket that tell no more than that it is there.
_PRESENCE = frozenset({"HeadBucket", "GetBucketLocation"})
# Calls on a bucket whose keys stand in the body: their handlers check each one.
_KEYS_IN_BODY = frozenset({"DeleteObjects", "PostObject"})
UNKNOWN_CALL = "Forward.other"
"""A writing call newer than our table of them: nobody knows what it reaches."""


@dataclass(frozen=True, slots=True)
class Grant:
    """prefixes: what BUCKET/KEY must start with, each with at least the slash behind its bucket; none: everything."""

    prefixes: tuple[str, ...] = ()
    read_only: bool = False

    def check(self, method: str, operation: str, bucket: str, key: str, query: Mapping[str, str]) -> None:
        """Raises: S3Error AccessDenied."""
        if self.read_only and method not in ("GET", "HEAD"):
            raise S3Error("AccessDenied", "This access key may only read.")
        if not self.prefixes:
            return
        if operation == UNKNOWN_CALL:
            raise S3Error("AccessDenied", "This access key may make no call that s4weights does not know.")
        if key:
            self.check_object(bucket, key)
        elif operation in _LISTINGS:
            self.check_object(bucket, query.get("prefix", ""))
        elif operation in _PRESENCE:
            if not self.shows_bucket(bucket):
                raise _out_of_reach()
        elif operation not in _KEYS_IN_BODY and operation != "ListBuckets":
            self.check_object(bucket, "")

    def check_object(self, bucket: str, key: str) -> None:
        """Raises: S3Error AccessDenied."""
        if not self.prefixes:
            return
        # A server, or something before it, that resolves dots would leave the prefix.
        if not f"{bucket}/{key}".startswith(self.prefixes) or {".", ".."} & set(re.split(r"[/\\]", key)):
            raise _out_of_reach()

    def shows_bucket(self, bucket: str) -> bool:
        """Whether anything in a bucket can be reached."""
        return not self.prefixes or any(prefix.startswith(f"{bucket}/") for prefix in self.prefixes)


EVERYTHING = Grant()


def _out_of_reach() -> S3Error:
    return S3Error("AccessDenied", "This access key may not reach this bucket or key.")
