"""Where the files of one sharded checkpoint lie: in a folder, each a container by itself, or in a step of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from s4weights.codec.errors import ConfigError
from s4weights.codec.types import Buffer, Level
from s4weights.engine import open_callers_engine
from s4weights.files import whole_file

from .container_stream import ContainerStream
from .loading import open_logical
from .run_files import clear_step, names_of_step, open_file, put_file
from .s3 import list_names, open_client, upload
from .sinks import PlainSink, Sink
from .steps import MARKER, ONE_FILE, check_step, is_marker, markers_first, step_name
from .targets import Named, S3Uri, parse_name


class ShardFiles(Protocol):
    """Holds no connection between calls, so that it can be pickled. Raises: as save and load, or as save_checkpoint."""

    def __str__(self) -> str: ...

    def at(self, checkpoint_id: str | PathLike[str]) -> ShardFiles:
        """Those of another checkpoint. Raises: ConfigError."""
        ...

    def put(self, name: str, length: int, write: Callable[[Sink], object]) -> None:
        """Store what `write` writes, length bytes; visible when it is whole."""
        ...

    def found(self) -> list[str]:
        """Names of what a reader may take for a checkpoint."""
        ...

    def clear(self) -> None:
        """No checkpoint is there from now on, nor anything of one."""
        ...

    def open(self, name: str) -> AbstractContextManager[tuple[BinaryIO, bytes | None]]:
        """The body, seekable, and its XXH3-128 where it is stored as a container, which has it. Raises: FileNotFoundError."""
        ...


def shard_files(target: Named, step: int | None, level: Level, endpoint: str | None) -> ShardFiles:
    """step: of the run at target; None: target is the folder itself. Raises: ConfigError, TypeError."""
    if step is None:
        return Folder(parse_name(target), level, endpoint)
    check_step(step)
    return Step(parse_name(target), step, level, endpoint)


@dataclass(frozen=True, slots=True)
class Folder:
    """place: a directory, or what the keys begin with. Each file a container; the marker as it is, for whatever reads it."""

    place: Path | S3Uri
    level: Level
    endpoint: str | None

    def __str__(self) -> str:
        return str(self.place)

    def at(self, checkpoint_id: str | PathLike[str]) -> Folder:
        """See ShardFiles."""
        return replace(self, place=parse_name(checkpoint_id))

    def put(self, name: str, length: int, write: Callable[[Sink], object]) -> None:
        """See ShardFiles."""
        with self._writing(name) as send:
            if name.endswith(MARKER):
                write(PlainSink(send))
                return
            with closing(ContainerStream(send, self.level, open_callers_engine())) as stream:
                write(stream)
                stream.finish()

    def found(self) -> list[str]:
        """See ShardFiles."""
        return [name for name in self._names() if is_marker(name)]

    def clear(self) -> None:
        """See ShardFiles."""
        names = markers_first(self._names())
        client = None if isinstance(self.place, Path) else open_client(self.endpoint)
        for name in names:
            place = self._place(name)
            if isinstance(place, Path):
                place.unlink(missing_ok=True)
            else:
                assert client is not None
                client.delete_object(Bucket=place.bucket, Key=place.key)

    @contextmanager
    def open(self, name: str) -> Iterator[tuple[BinaryIO, bytes | None]]:
        """See ShardFiles."""
        with open_logical(self._place(name), open_callers_engine(), endpoint=self.endpoint) as (file, body):
            yield cast(BinaryIO, file), body.about.digest if body is not None else None

    def _names(self) -> list[str]:
        if isinstance(self.place, Path):
            return [path.name for path in self.place.iterdir()] if self.place.exists() else []
        client = open_client(self.endpoint)
        return [name for start in (MARKER, "__") for name in list_names(client, self.place, start)]

    def _place(self, name: str) -> Path | S3Uri:
        if isinstance(self.place, Path):
            return self.place / name
        return S3Uri(self.place.bucket, f"{self.place.key.strip('/')}/{name}")

    @contextmanager
    def _writing(self, name: str) -> Iterator[Callable[[Buffer], object]]:
        place = self._place(name)
        if isinstance(place, Path):
            place.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(place) as file:
                yield file.write
        else:
            with upload(open_client(self.endpoint), place, is_container=not name.endswith(MARKER)) as writing:
                yield writing.write


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a run, stored against the step before it as save_checkpoint stores one."""

    run: Path | S3Uri
    step: int
    level: Level
    endpoint: str | None

    def __str__(self) -> str:
        return f"{self.run}, step {self.step}"

    def at(self, checkpoint_id: str | PathLike[str]) -> Step:
        """See ShardFiles."""
        text = str(checkpoint_id)
        if not text.isdecimal():
            raise ConfigError(f"checkpoint_id: expected a step of the run {self.run}, found {text!r}")
        return replace(self, step=int(text))

    def put(self, name: str, length: int, write: Callable[[Sink], object]) -> None:
        """See ShardFiles."""
        put_file(self.run, self._key(name), length, write, self.level, self.endpoint)

    def found(self) -> list[str]:
        """See ShardFiles."""
        names = names_of_step(self.run, self.step, self.endpoint)
        return [name for name in names if name == ONE_FILE or is_marker(name)]

    def clear(self) -> None:
        """See ShardFiles."""
        clear_step(self.run, self.step, self.endpoint)

    def open(self, name: str) -> AbstractContextManager[tuple[BinaryIO, bytes | None]]:
        """See ShardFiles."""
        return open_file(self.run, self._key(name), self.endpoint)

    def _key(self, name: str) -> str:
        return step_name(self.step, name)
