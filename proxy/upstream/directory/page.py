"""One page of a listing: keys of a walk, folded at the delimiter."""

from __future__ import annotations

from s4weights.proxy.upstream.protocol import Entry, Listing

from .files import BucketFiles
from .listing import Walk


def list_page(files: BucketFiles, prefix: str, delimiter: str, after: str, max_keys: int) -> Listing:
    """Up to max_keys keys and common prefixes behind `after`."""
    entries: list[Entry] = []
    prefixes: list[str] = []
    last = after
    if max_keys <= 0:
        return Listing([], [], None)
    walk = Walk(files.folder, prefix=prefix, after=after)
    for key, path in walk:
        common = _common_prefix(key, prefix, delimiter)
        if common is not None and (common <= after or common in prefixes[-1:]):
            continue
        if len(entries) + len(prefixes) == max_keys:
            return Listing(entries, prefixes, last)
        if common is None:
            try:
                info = files.metadata.info(path.stat())
            except FileNotFoundError:
                continue
            entries.append(Entry(key, info.size, info.etag, info.last_modified))
            last = key
        else:
            prefixes.append(common)
            last = common
            # Nothing more below a common prefix is looked at: go on behind its last possible key.
            walk.skip(_beyond(common))
    return Listing(entries, prefixes, None)


def _beyond(common: str) -> str:
    return common + "\U0010ffff"


def _common_prefix(key: str, prefix: str, delimiter: str) -> str | None:
    if not delimiter:
        return None
    at = key.find(delimiter, len(prefix))
    return key[: at + len(delimiter)] if at >= 0 else None
