"""What a header may hold."""

from __future__ import annotations

import re
from typing import Final

from s4weights.proxy.errors import S3Error

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_VALUES: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


def check_header(name: str, value: str) -> None:
    """Of what became a header elsewhere: a field of a form, a parameter. Raises: S3Error InvalidArgument."""
    if not _TOKEN.fullmatch(name) or _NOT_IN_VALUES.search(value):
        raise S3Error("InvalidArgument", "A header holds a character that it may not hold.", ArgumentName=name)
