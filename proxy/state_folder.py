"""The state directory, looked at before anything begins."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from s4weights.codec.errors import ConfigError


def prepare(state_dir: Path) -> None:
    """Make it where it is missing, and write to it. Raises: ConfigError that names the setting; OSError on a full disk."""
    state_dir = state_dir.expanduser()
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=state_dir):
            pass
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise  # a disk that is full may have room again
        reason = error.strerror or str(error)
        if isinstance(error, (FileExistsError, NotADirectoryError)):
            reason = "there is a file of that name, or on the way to it"
        raise ConfigError(
            f"state_dir: expected a directory that can be made and written, found {os.fspath(state_dir)}: {reason}; name "
            "another one with --state or S4W_STATE_DIR"
        ) from None
