"""The real bucket: Amazon S3 or any server that speaks it."""

from .calls import Patience
from .store import BucketUpstream

__all__ = ["BucketUpstream", "Patience"]
