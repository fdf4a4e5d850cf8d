"""Which torch the API needs, said when it is imported: pip's own bound is not asked where torch was there before."""

from __future__ import annotations

import re
from typing import Final

import torch

# SerializationFormat of torch.distributed.checkpoint is of 2.8; storages in the order of their keys, and skip_data for
# torch.load, are of 2.7. pyproject.toml and docs/pytorch.md say the same.
_OLDEST: Final = (2, 8)


def check_torch() -> None:
    """Raises: ImportError."""
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST:
        raise ImportError(
            f"s4weights needs torch {_OLDEST[0]}.{_OLDEST[1]} or newer, found {torch.__version__}: "
            "pip install 's4weights[torch]'"
        )


def check_distributed() -> None:
    """Raises: ImportError where this build of torch has no torch.distributed."""
    if not torch.distributed.is_available():
        raise ImportError("DCPWriter and DCPReader need torch.distributed, which this build of torch lacks")
