"""From `--upstream` to a bucket store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from s4weights.codec.errors import ConfigError
from s4weights.proxy.config import Settings

from .directory import DirectoryUpstream
from .protocol import Upstream

_REGION: Final = re.compile("[a-z]{2,5}(-[a-z]+)+-[0-9]+")


def open_upstream(settings: Settings) -> Upstream:
    """The store that a setting names; not yet started. Raises: ConfigError."""
    spec = settings.upstream
    if spec.startswith("s3://"):
        region = spec.removeprefix("s3://").strip("/")
        if not _REGION.fullmatch(region):
            raise ConfigError(f"upstream: expected s3://REGION such as s3://us-east-1, found {spec!r}")
        return _bucket(settings, region=region)
    if spec.startswith(("http://", "https://")):
        return _bucket(settings, endpoint=spec.rstrip("/"))
    if "://" in spec:
        raise ConfigError(f"upstream: expected a directory, s3://REGION or an http(s) URL, found {spec!r}")
    return DirectoryUpstream(Path(spec).expanduser())


def _bucket(settings: Settings, *, region: str | None = None, endpoint: str | None = None) -> Upstream:
    from .bucket import BucketUpstream, Patience

    patience = Patience(settings.upstream_silence_s, settings.upstream_retry_s)
    return BucketUpstream(region=region, endpoint=endpoint, patience=patience)
