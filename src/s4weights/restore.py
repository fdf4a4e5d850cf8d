"""A folder or a bucket's prefix that was copied without the proxy, back to the files that clients wrote."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from s4weights.bodies import SUFFIX
from s4weights.codec.engines import Engine
from s4weights.codec.errors import ConfigError, FormatError
from s4weights.codec.types import CONTAINER_MAGIC
from s4weights.engine import open_engine
from s4weights.files import Progress, Report, restore_file
from s4weights.measure.sources import KeptSource, Source, open_sources
from s4weights.restore_bases import CopiedBases

_SCHEME: Final = "s3://"
# What the proxy keeps for itself in a bucket, and save_checkpoint beside one.
_OWN: Final = frozenset({".s4weights", ".s4weights-calls", ".s4weights-state"})
# The proxy's user metadata; `raw`: a container that a client itself wrote.
_MARKER: Final = "s4w"
_MARKED_RAW: Final = "raw"
_READ_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Plan:
    """One file to be. name: below the source, with slashes."""

    name: str
    source: KeptSource


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of one. report: None where it failed, and error says why."""

    source: str
    target: str
    report: Report | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Copied:
    """A place. plans: what clients wrote, in order of names. sources: all there is, by name below the place."""

    plans: list[Plan]
    sources: list[tuple[str, KeptSource]]


def plan(place: str, target: Path) -> Copied:
    """Everything at a place. Raises: OSError, ConfigError."""
    if not place.startswith(_SCHEME):
        folder = Path(place)
        if not folder.is_dir():
            raise NotADirectoryError(f"{place}: expected a folder or s3://BUCKET/PREFIX")
        if target.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(f"{target}: expected a place outside of {place}")
        start = len(str(folder / "x")) - 1
    else:
        # As `aws s3 sync`: names go on behind the prefix's last slash.
        bucket, slash, prefix = place.removeprefix(_SCHEME).partition("/")
        start = len(f"{_SCHEME}{bucket}/{prefix[: prefix.rfind('/') + 1]}") if slash else len(place) + 1
    plans = [Plan(source.name[start:], source) for source in open_sources(place)]
    mine = [one for one in plans if one.name.partition("/")[0] not in _OWN]
    return Copied(mine, [(one.name, one.source) for one in plans])


def restore_all(
    copied: Copied,
    target: Path,
    *,
    engine: Engine | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Iterator[Restored]:
    """Write each one below target: containers decoded and verified, everything else as it is. A fault ends that one alone."""
    engine = engine or open_engine(one_by_one=True)
    bases = CopiedBases(copied.sources, engine)
    for one in copied.plans:
        place = target / one.name
        try:
            report = _restore(one, _inside(target, one.name), bases, engine, force, progress)
        except (FormatError, OSError, ValueError) as error:
            yield Restored(one.source.name, str(place), error=str(error))
        else:
            yield Restored(one.source.name, str(place), report)


def _restore(
    one: Plan, place: Path, bases: CopiedBases, engine: Engine, force: bool, progress: Progress | None
) -> Report:
    place.parent.mkdir(parents=True, exist_ok=True)
    with closing(io.BufferedReader(_SourceIO(one.source), _READ_BYTES)) as reading:
        # The proxy adds no suffix: what has it was packed by its owner, and is theirs to unpack.
        as_it_is = one.name.endswith(SUFFIX) or (_is_container(reading) and _is_marked_raw(one.source))
        return restore_file(
            reading,
            place,
            name=one.source.name,
            as_it_is=as_it_is,
            read_base=bases.reader(one.source),
            engine=engine,
            force=force,
            progress=progress,
        )


def _is_container(reading: io.BufferedReader[Any]) -> bool:
    return reading.peek(len(CONTAINER_MAGIC)).startswith(CONTAINER_MAGIC)


def _is_marked_raw(source: KeptSource) -> bool:
    return source.metadata().get(_MARKER) == _MARKED_RAW


def _inside(target: Path, name: str) -> Path:
    """Where a name lies. Raises: ValueError where that is no file below target."""
    parts = name.split("/")
    if not name or {"", ".", ".."} & set(parts) or "\0" in name or PurePosixPath(name).is_absolute():
        raise ValueError(f"{name!r}: expected a name that can be a file below {target}")
    place = target.joinpath(*parts)
    if not place.parent.resolve().is_relative_to(target.resolve()):
        raise ValueError(f"{name!r}: a link leads out of {target}")
    return place


class _SourceIO(io.RawIOBase):
    """A source as a stream."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        length = min(len(buffer), self._source.size - self._at)
        buffer[:length] = self._source.read(self._at, length)
        self._at += length
        return length
