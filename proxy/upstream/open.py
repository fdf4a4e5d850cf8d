"""From `--upstream` to a bucket store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from s4weights.codec.errors import ConfigError
from s4weights.proxy.config import Settings

from .directory import DirectoryUpstream
from .protocol import Upstream

_REGION: Final = re.compile("[a-z]{2}(-[a-z]+)+-[0-9]+")


def open_upstream(settings: Settings) -> Upstream:
    """The store that a setting names; not yet started. Raises: ConfigError."""
    spec = settings.upstream
    if spec.startswith("s3://"):
        region = spec.removeprefix("s3://").strip("/")
        if not _REGION.fullmatch(region):
            raise ConfigError(f"upstream: expected s3://REGION such as s3://us-east-1, found {spec!r}")
        from .bucket import BucketUpstream

        return BucketUpstream(region=region)
    if spec.startswith(("http://", "https://")):
        from .bucket import BucketUpstream

        return BucketUpstream(endpoint=spec.rstrip("/"))
    if "://" in spec:
        raise ConfigError(f"upstream: expected a directory, s3://REGION or an http(s) URL, found {spec!r}")
    return DirectoryUpstream(Path(spec).expanduser())
