"""The bases of a file that is packed: what its frames are offered, and the bytes of that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from s4weights.codec.bases import BasePlanner, BaseTable
from s4weights.codec.engines import Engine
from s4weights.codec.errors import ConfigError
from s4weights.codec.limits import MAX_CHAIN
from s4weights.codec.types import BaseRange

from .bodies import BaseFiles, Body, PlainBody


class FrameBases:
    """planner: for one thread. read: for any. others: bodies 1, 2, ..."""

    def __init__(self, own: PlainBody | None, others: Sequence[Body], files: BaseFiles) -> None:
        """own: the file itself, which is read again where a frame may be predicted from an earlier one."""
        self.others = tuple(others)
        self._own = own
        self._files = files
        tables = [BaseTable.of_rows(number, body.about.size, body.rows) for number, body in enumerate(others, 1)]
        self.planner = BasePlanner(tables, size=own.size if own else None, twins=own is not None)

    @classmethod
    def of_files(cls, source: Path, bases: Sequence[Path], engine: Engine) -> Self:
        """bases: bodies or their containers. Raises: FormatError, ConfigError, OSError."""
        files = BaseFiles((), engine)
        try:
            others = [files.open(path) for path in bases]
            for path, body in zip(bases, others, strict=True):
                if body.about.depth + 1 > MAX_CHAIN:
                    raise ConfigError(
                        f"{path}: expected a base with fewer than {MAX_CHAIN} bodies behind it, found {body.about.depth}"
                    )
            # What is no plain file cannot be read twice.
            return cls(PlainBody(source) if source.is_file() else None, others, files)
        except BaseException:
            files.close()
            raise

    @property
    def paths(self) -> list[Path]:
        """Of all files that were needed."""
        return self._files.paths

    def read(self, wanted: BaseRange) -> bytes:
        """The bytes of an offer. Raises: FormatError, OSError."""
        body = self.others[wanted.reference.number - 1] if wanted.reference.number else self._own
        assert body is not None
        return body.read(wanted.reference.start, wanted.length)

    def close(self) -> None:
        """Raises: S4WeightsError where a file changed, so that what was predicted may not come back."""
        try:
            if self._own is not None:
                self._own.close()
        finally:
            self._files.close()
