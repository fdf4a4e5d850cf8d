"""Checkpoints of a run, each stored against the one before it, as the proxy would store them.

A run is a directory or s3://BUCKET/PREFIX. Keys: PREFIX/step-N/checkpoint.pt; in a directory RUN/checkpoints/step-N/....
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import torch

from s4weights.codec.errors import ConfigError
from s4weights.codec.types import Level
from s4weights.engine import open_callers_engine

from .body_pipe import saved_bytes
from .run_files import body_of, opened, put_step
from .state_writer import StateWriter
from .steps import check_step, find_steps, remove_files, step_name, whole_steps
from .targets import Named, parse_level, parse_name


def save_checkpoint(
    state: object, run: Named, *, step: int, level: str | Level = "balanced", endpoint: str | None = None
) -> None:
    """Store state as a step of a run; a step that is there is replaced, also a sharded one. Visible when it is whole.

    level, endpoint: as for s4weights.save. Raises: ConfigError, ImportError without the proxy extra, what torch.save raises,
    S3Error, UpstreamError.
    """
    check_step(step)
    coded = parse_level(level)
    put_step(
        parse_name(run), step, saved_bytes(state), StateWriter.of(state, open_callers_engine()).write, coded, endpoint
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
        steps = store.submit(whole_steps(store)).result()
        wanted = step if step is not None else max(steps, default=None)
        if wanted not in steps:
            raise FileNotFoundError(
                f"{run}: expected {'a checkpoint' if step is None else f'step {step}'}, found the steps {list(steps)}"
            )
        if not steps[wanted].is_one_file:
            raise ConfigError(f"{run}: expected step {wanted} in one file, found a sharded one: load it with DCPReader")
        with body_of(store, step_name(wanted)) as (body, _):
            return torch.load(body, map_location=map_location, weights_only=weights_only)  # nosec B614 - unless the caller says otherwise


def list_checkpoints(run: Named, *, endpoint: str | None = None) -> list[int]:
    """The steps of a run, in order; none where there is no such run."""
    try:
        with opened(parse_name(run), Level.BALANCED, endpoint) as store:
            return list(store.submit(whole_steps(store)).result())
    except FileNotFoundError:
        return []


def prune_checkpoints(
    run: Named, *, keep: int, keep_every: int | None = None, endpoint: str | None = None
) -> list[int]:
    """Remove all but the last `keep` steps, and but those that `keep_every` divides.

    What is left of saves that came to nothing before the last step goes as well, once it is so old (DELAYS.grace, 7 days)
    that nobody can be at it any more. Of a step's folder only the files of a checkpoint go; others stay, and so does a folder
    that has some. What others are stored against stays, hidden, until nothing needs it.
    Returns the steps that went, whole or not, in order. Raises: ConfigError, S3Error, UpstreamError.
    """
    if keep < 1 or (keep_every is not None and keep_every < 1):
        raise ConfigError(f"expected to keep at least 1, found keep={keep}, keep_every={keep_every}")
    with opened(parse_name(run), Level.BALANCED, endpoint) as store:
        from s4weights.proxy.lineage.timing import DELAYS

        found = store.submit(find_steps(store)).result()
        whole = [number for number, step in found.items() if step.is_whole]
        latest = datetime.now(UTC) - DELAYS.grace
        broken = [
            number
            for number, step in found.items()
            if not step.is_whole and not step.is_anothers and number < max(whole, default=0) and step.newest < latest
        ]
        removed = sorted([one for one in whole[:-keep] if keep_every is None or one % keep_every] + broken)
        for number in removed:
            store.submit(remove_files(store, number, found[number].in_order_of_removal())).result()
    return removed
