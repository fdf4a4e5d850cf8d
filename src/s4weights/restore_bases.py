"""Bases of containers that lie in a copied bucket: at the key where they were, or among the hidden ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from s4weights.bodies import ContainerBody
from s4weights.codec.container import BaseBody
from s4weights.codec.decode import ReadBase, check_reference
from s4weights.codec.engines import Engine
from s4weights.codec.errors import MissingBase
from s4weights.codec.types import BaseRange
from s4weights.measure.sources import KeptSource
from s4weights.proxy.lineage.names import ALL_HIDDEN, Content


class SourceStored:
    """A source's bytes."""

    def __init__(self, source: KeptSource) -> None:
        self._source = source
        self.size = source.size

    def read(self, start: int, length: int) -> bytes:
        """See Stored."""
        return self._source.read(start, max(0, min(length, self.size - start)))

    def close(self) -> None:
        """A source is opened for each read."""


class CopiedBases:
    """sources: everything that was copied, by name below the place; the bucket's keys may have had a prefix before them."""

    def __init__(self, sources: Iterable[tuple[str, KeptSource]], engine: Engine) -> None:
        self._sources = dict(sources)
        self._engine = engine
        self._found: dict[BaseBody, ContainerBody] = {}

    def reader(self, source: KeptSource) -> ReadBase:
        """For the frames of one container. Its index is read where a frame needs it."""
        known: list[tuple[BaseBody, ...]] = []

        def read(needed: BaseRange) -> bytes:
            if not known:
                known.append(self._body(source).bases)
            return self.read(known[0], needed, Path(source.name))

        return read

    def read(self, bases: Sequence[BaseBody], needed: BaseRange, needing: Path) -> bytes:
        """See BaseFinder."""
        check_reference(needed, bases, frame_start=0, where=str(needing))
        base = bases[needed.reference.number - 1]
        if base not in self._found:
            self._found[base] = self._find(base, needing)
        return self._found[base].read(needed.reference.start, needed.length)

    def _find(self, base: BaseBody, needing: Path) -> ContainerBody:
        hidden = f"{ALL_HIDDEN}{Content(base.digest.hex(), base.size)}/"
        for name, source in self._sources.items():
            if name == base.key or f"/{base.key}".endswith(f"/{name}") or hidden in f"{name}":
                body = self._body(source)
                about = body.about
                if (about.size, about.digest) == (base.size, base.digest) and about.depth <= base.depth:
                    return body
        raise MissingBase(
            f"{needing}: expected its base {base.key!r}, {base.size} bytes with XXH3-128 {base.digest.hex()}; found it neither "
            "under its name nor among the hidden bases"
        )

    def _body(self, source: KeptSource) -> ContainerBody:
        return ContainerBody(Path(source.name), SourceStored(source), self._engine, self)
