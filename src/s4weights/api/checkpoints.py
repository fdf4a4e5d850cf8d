"""Checkpoints of a run, each stored against the one before it, as the proxy would store them.

A run is a directory or s3://BUCKET/PREFIX. Keys: PREFIX/step-N/checkpoint.pt; in a directory RUN/checkpoints/step-N/....
A step that torch.distributed.checkpoint saved (dcp.py) has several files, and is whole when its MARKER is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from s4weights.codec.errors import ConfigError
from s4weights.codec.types import Level
from s4weights.engine import open_callers_engine

from .body_pipe import saved_bytes
from .run_files import body_of, opened, put_file
from .state_writer import StateWriter
from .targets import Named, parse_level, parse_name

if TYPE_CHECKING:
    from .run_store import RunStore

MARKER: Final = ".metadata"
_ONE_FILE: Final = "checkpoint.pt"
_NAME: Final = re.compile(r"step-(\d+)/(.+)")
# Beside a rank's number where the ranks do not speak to one another.
_MARKER_OF_RANK: Final = re.compile(r"(__\d+)?\.metadata")


def save_checkpoint(
    state: object, run: Named, *, step: int, level: str | Level = "balanced", endpoint: str | None = None
) -> None:
    """Store state as a step of a run; a step that is there is replaced. Visible when it is whole.

    level, endpoint: as for s4weights.save. Raises: ConfigError, ImportError without the proxy extra, what torch.save raises,
    S3Error, UpstreamError.
    """
    name, coded = step_name(step), parse_level(level)
    put_file(
        parse_name(run), name, saved_bytes(state), StateWriter.of(state, open_callers_engine()).write, coded, endpoint
    )


def load_checkpoint(
    run: Named,
    step: int | None = None,
    map_location: Any = None,
    weights_only: bool = True,
    *,
    endpoint: str | None = None,
) -> Any:
    """The state of a step, by default the last one. Raises: FileNotFoundError, FormatError, and as save_checkpoint."""
    place = parse_name(run)
    with opened(place, Level.BALANCED, endpoint) as store:
        steps = store.submit(_steps(store)).result()
        wanted = step if step is not None else max(steps, default=None)
        if wanted not in steps:
            raise FileNotFoundError(
                f"{run}: expected {'a checkpoint' if step is None else f'step {step}'}, found the steps {list(steps)}"
            )
        if not steps[wanted].is_one_file:
            raise ConfigError(f"{run}: expected step {wanted} in one file, found a sharded one: load it with DCPReader")
        with body_of(store, step_name(wanted)) as body:
            return torch.load(body, map_location=map_location, weights_only=weights_only)  # nosec B614 - unless the caller says otherwise


def list_checkpoints(run: Named, *, endpoint: str | None = None) -> list[int]:
    """The steps of a run, in order; none where there is no such run."""
    try:
        with opened(parse_name(run), Level.BALANCED, endpoint) as store:
            return list(store.submit(_steps(store)).result())
    except FileNotFoundError:
        return []


def prune_checkpoints(
    run: Named, *, keep: int, keep_every: int | None = None, endpoint: str | None = None
) -> list[int]:
    """Remove all but the last `keep` steps, and but those that `keep_every` divides. Returns the steps removed.

    What is left of saves that came to nothing before the last step goes as well. What others are stored against stays,
    hidden, until nothing needs it. Raises: ConfigError, S3Error, UpstreamError.
    """
    if keep < 1 or (keep_every is not None and keep_every < 1):
        raise ConfigError(f"expected to keep at least 1, found keep={keep}, keep_every={keep_every}")
    with opened(parse_name(run), Level.BALANCED, endpoint) as store:
        found = store.submit(_found(store)).result()
        steps = [number for number, step in found.items() if step.is_whole]
        removed = [one for one in steps[:-keep] if keep_every is None or one % keep_every]
        broken = [one for one in found if one not in steps and one < max(steps, default=0)]
        for one in sorted(removed + broken):
            for name in found[one].in_order_of_removal():
                store.submit(store.objects.delete(store.bucket, store.prefix + step_name(one, name))).result()
    return removed


@dataclass(slots=True)
class _Step:
    """names: of its files, in the order of a listing."""

    names: list[str] = field(default_factory=list)

    @property
    def is_one_file(self) -> bool:
        return _ONE_FILE in self.names

    @property
    def is_whole(self) -> bool:
        return self.is_one_file or any(map(_MARKER_OF_RANK.fullmatch, self.names))

    def in_order_of_removal(self) -> list[str]:
        """What makes it whole goes first, so that half a step is none."""
        return sorted(self.names, key=lambda name: name != _ONE_FILE and not _MARKER_OF_RANK.fullmatch(name))


async def _steps(store: RunStore) -> dict[int, _Step]:
    return {number: step for number, step in (await _found(store)).items() if step.is_whole}


async def _found(store: RunStore) -> dict[int, _Step]:
    """All that there is of any step, in order of their numbers."""
    from s4weights.proxy.upstream.protocol import Listing

    steps: dict[int, _Step] = {}
    page = Listing([], [], "")
    while page.next_after is not None:
        page = await store.objects.store.upstream.list_objects(
            store.bucket, prefix=f"{store.prefix}step-", after=page.next_after, token=page.next_token
        )
        for entry in page.entries:
            if (name := _NAME.fullmatch(entry.key.removeprefix(store.prefix))) is not None:
                steps.setdefault(int(name[1]), _Step()).names.append(name[2])
    return dict(sorted(steps.items()))


def step_name(step: int, file: str = _ONE_FILE) -> str:
    """The key of a step's file within its run. Raises: ConfigError."""
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ConfigError(f"step: expected a number from 0 on, found {step!r}")
    return f"step-{step}/{file}"
