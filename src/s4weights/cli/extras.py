"""What a command needs beyond the package's own dependencies, said by name where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from s4weights.codec.errors import ConfigError


@contextmanager
def proxy_extra() -> Iterator[None]:
    """For imports from the proxy. Raises: ConfigError where its extra is not installed."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{error.name} is missing: pip install 's4weights[proxy]'") from None
