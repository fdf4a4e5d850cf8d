"""What a new body is coded against, and who is told when it is there."""

from __future__ import annotations

import logging

from s4weights.codec.container import BaseBody
from s4weights.codec.errors import FormatError
from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.lineage.cache import ContainerCache
from s4weights.proxy.lineage.calls import Need, Occupant
from s4weights.proxy.lineage.names import new_nonce
from s4weights.proxy.lineage.protocol import claim

from . import occupants
from .based_body import BasedBody
from .bases import Bases
from .codec_pool import CodecPool
from .guard import Guard
from .occupants import base_of, occupant_of
from .predecessors import Predecessors
from .types import LogicalObject

_log = logging.getLogger(__name__)


class Lineage:
    """Never stands in the way of a save: whatever fails here only costs bytes."""

    def __init__(
        self,
        settings: Settings,
        guard: Guard,
        pool: CodecPool,
        bases: Bases,
        predecessors: Predecessors,
        cache: ContainerCache,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._pool = pool
        self.bases = bases
        self.predecessors = predecessors
        self._cache = cache

    async def begin(self, target: tuple[str, str], size: int | None) -> BasedBody | None:
        """For a body that is about to be encoded at target (bucket, key). size: logical bytes, where known."""
        if not self._settings.deltas or (size is not None and size < occupants.MIN_BASE_BYTES):
            return None
        bucket, key = target
        base = await self._claimed(bucket, key, size)
        return BasedBody(self._guard, self._pool, self.bases, target, size, base, self._cache.begin())

    async def begin_again(self, target: tuple[str, str], size: int, there: Occupant) -> BasedBody:
        """For a body that is there already and is to have another base than it has, no deeper, or none."""
        base = await self._claimed(*target, size, there) if self._settings.deltas else None
        return BasedBody(self._guard, self._pool, self.bases, target, size, base, self._cache.begin())

    def begin_alone(self, target: tuple[str, str], size: int) -> BasedBody:
        """For a body that is to have no bases but itself."""
        return BasedBody(self._guard, self._pool, self.bases, target, size, None, self._cache.begin())

    async def _claimed(
        self, bucket: str, key: str, size: int | None, instead: Occupant | None = None
    ) -> tuple[BaseBody, LogicalObject] | None:
        try:
            found = await self.predecessors.find(bucket, key, size, instead)
            if found is None:
                return None
            there = occupant_of(found)
            if there.content is None:
                return None
            need = Need(there.content, there.depth, new_nonce(), found.key, there.version)
            if await self._guard.run(bucket, claim(need, key)):
                return base_of(need), found
        except (S3Error, UpstreamError, FormatError) as error:
            _log.info("%s/%s is stored without a base: %s", bucket, key, error)
        except Exception:
            # A fault of ours: the save goes on all the same.
            _log.exception("%s/%s is stored without a base", bucket, key)
        return None
