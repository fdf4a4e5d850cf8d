"""The steps of a run: what they are called, what of their folders is ours, and when a step is whole.

A step is one file, or the shards of torch.distributed.checkpoint (dcp.py), which are whole once their MARKER is there. Whatever
else lies in a step's folder is somebody else's, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from s4weights.codec.errors import ConfigError

if TYPE_CHECKING:
    from .run_store import RunStore

MARKER: Final = ".metadata"
ONE_FILE: Final = "checkpoint.pt"
_SHARD: Final = re.compile(r"__[0-9]+_[0-9]+\.(distcp|safetensors)")
# What torch's own writer leaves where its ranks do not speak to one another: it says nothing of the other ranks.
_MARKER_OF_RANK: Final = re.compile(r"__[0-9]+\.metadata")
# As step_name writes them, and no other way: step-007 is not ours.
_KEY: Final = re.compile(r"step-(0|[1-9][0-9]{0,18})/([^/]+)")
_MOST: Final = (1 << 63) - 1
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def check_step(step: int) -> None:
    """Raises: ConfigError where it cannot be the number of a step."""
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= _MOST:
        raise ConfigError(f"step: expected a number from 0 to {_MOST}, found {step!r:.40}")


def step_name(step: int, file: str = ONE_FILE) -> str:
    """The key of a step's file within its run. Raises: ConfigError."""
    check_step(step)
    return f"step-{step}/{file}"


def is_marker(name: str) -> bool:
    """Whether a reader of torch's may take a file of this name for the end of a sharded checkpoint."""
    return name == MARKER or _MARKER_OF_RANK.fullmatch(name) is not None


def markers_first(names: Iterable[str]) -> list[str]:
    """What a sharded checkpoint leaves, of these names, in the order of its removal, so that half of one is none."""
    return sorted(filter(_is_of_sharded, names), key=lambda name: not is_marker(name))


def _is_of_sharded(name: str) -> bool:
    return is_marker(name) or _SHARD.fullmatch(name) is not None


@dataclass(slots=True)
class Step:
    """What lies in a step's folder and may be ours. newest: when the last of it was written, by the bucket's clock."""

    names: list[str] = field(default_factory=list)
    newest: datetime = _NEVER

    @property
    def is_one_file(self) -> bool:
        return ONE_FILE in self.names

    @property
    def is_whole(self) -> bool:
        return self.is_one_file or MARKER in self.names

    @property
    def is_anothers(self) -> bool:
        """Whether ranks that do not speak to one another saved it, through a writer of torch's."""
        return any(map(_MARKER_OF_RANK.fullmatch, self.names))

    def in_order_of_removal(self) -> list[str]:
        """What makes it whole goes first."""
        return [name for name in self.names if name == ONE_FILE] + markers_first(self.names)


async def whole_steps(store: RunStore) -> dict[int, Step]:
    """In order of their numbers."""
    return {number: step for number, step in (await find_steps(store)).items() if step.is_whole}


async def find_steps(store: RunStore, only: int | None = None) -> dict[int, Step]:
    """All that there is of any step, or of one, in order of their numbers."""
    from s4weights.proxy.upstream.protocol import Listing

    steps: dict[int, Step] = {}
    prefix = store.prefix + ("step-" if only is None else step_name(only, ""))
    page = Listing([], [], "")
    while page.next_after is not None:
        page = await store.objects.store.upstream.list_objects(
            store.bucket, prefix=prefix, after=page.next_after, token=page.next_token
        )
        for entry in page.entries:
            key = _KEY.fullmatch(entry.key.removeprefix(store.prefix))
            if key is None or not (key[2] == ONE_FILE or _is_of_sharded(key[2])):
                continue
            step = steps.setdefault(int(key[1]), Step())
            step.names.append(key[2])
            step.newest = max(step.newest, entry.last_modified)
    return {number: steps[number] for number in sorted(steps) if number <= _MOST}


async def find_step(store: RunStore, number: int) -> Step:
    """All that there is of one; nothing where there is none."""
    return (await find_steps(store, number)).get(number, Step())


async def remove_files(store: RunStore, number: int, names: Iterable[str]) -> None:
    """Of a step, one after the other. Raises: S3Error, UpstreamError."""
    for name in names:
        await store.objects.delete(store.bucket, store.prefix + step_name(number, name))
