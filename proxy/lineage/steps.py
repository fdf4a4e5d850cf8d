"""Which step of which run a key belongs to, and where the step before it may lie. Names are hints; a sample decides.

Source: the key patterns of HF Trainer, accelerate, Lightning, NeMo, DeepSpeed, Megatron-LM, torchtitan, torchtune, Composer,
verl, fairseq, timm and their kin; tests/proxy/lineage/test_steps.py has one of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# What a step or an epoch is called, before its number. The longer name first.
_STEP: Final = r"global[-_]?step|checkpoint|ckpt|step|iteration|iter|batch|ba|model|copy"
_EPOCH: Final = r"epoch|ep"
_NUMBER: Final = re.compile(
    rf"(?<![A-Za-z])(?P<word>{_STEP}|{_EPOCH})(?P<gap>[-_=]?)(?P<number>\d+)(?!\d|\.\d)", re.IGNORECASE
)
# Numbers that tell shards of one checkpoint apart, or no order at all: `model-00001-of-00002`, `copy-1`.
_SHARD: Final = re.compile(r"\d+-of-\d+", re.IGNORECASE)
# fairseq's checkpoint_EPOCH_STEP, and the bare EPOCH-STEP of old Lightning templates.
_PAIR: Final = re.compile(r"(?:^|(?<=/))(?:checkpoint_)?(?P<epoch>\d+)[-_](?P<step>\d+)(?=[-.])", re.IGNORECASE)
# A measured value in a name changes from step to step and says nothing of their order.
_METRIC: Final = re.compile(
    r"(?P<name>[A-Za-z_]{0,32}(?:loss|acc|score|metric|ppl|consumed_samples)[A-Za-z_]{0,32}=)-?[\d.]*\d"
)
_POINTERS: Final = re.compile(r"(?<![A-Za-z])(last|best|latest|final|model_best)(?![A-Za-z])", re.IGNORECASE)
# Staging names, markers and pointers to a checkpoint are none.
_NEVER: Final = re.compile(r"(^|/)(tmp[-_.]|\.tmp)|\.tmp$|-unfinished|\.symlink$|(^|/)latest[^/]*\.txt$")


@dataclass(frozen=True, slots=True)
class StepKey:
    """A key of one step. pattern: matches the keys of the other steps, with their numbers as groups.

    order: what steps are compared by, step before epoch. listed: prefix under which the others lie; folder: what follows the
    part of the key that differs ('' where it is the last part).
    """

    key: str
    pattern: re.Pattern[str]
    names: tuple[str, ...]
    order: tuple[int, ...]
    listed: str
    folder: str

    def order_of(self, other: str) -> tuple[int, ...] | None:
        """The order of another key; None: one of another run, rank or shard, or one that contradicts itself."""
        match = self.pattern.fullmatch(other)
        if match is None:
            return None
        found: dict[str, int] = {}
        for name, text in zip(self.names, match.groups(), strict=True):
            if found.setdefault(name, int(text)) != int(text):
                return None
        return tuple(found[name] for name in _sorted(found))

    def before(self, keys: Iterable[str]) -> list[str]:
        """The keys of earlier steps, the latest first."""
        ordered = [(order, key) for key in keys if (order := self.order_of(key)) is not None and order < self.order]
        return [key for _, key in sorted(ordered, reverse=True)]


def parse_step(key: str) -> StepKey | None:
    """None where the key names no step, or nothing that is ever a base."""
    if _NEVER.search(key):
        return None
    spans = _spans(key)
    if not spans:
        return None
    numbers: dict[str, int] = {}
    for _, _, name, number in spans:
        numbers.setdefault(name, number)
    # A second number of one name is part of the name, unless it repeats the first (checkpoint-5/global_step5).
    spans = [span for span in spans if span[3] == numbers[span[2]]]
    pattern, names = "", []
    at = 0
    for start, end, name, _ in spans:
        pattern += _escaped(key[at:start]) + r"(\d+)"
        names.append(name)
        at = end
    pattern += _escaped(key[at:])
    first = spans[0][0]
    listed = key[: key.rfind("/", 0, first) + 1]
    part_end = key.find("/", first)
    return StepKey(
        key=key,
        pattern=re.compile(pattern),
        names=tuple(names),
        order=tuple(numbers[name] for name in _sorted(numbers)),
        listed=listed,
        folder="" if part_end < 0 else key[part_end:],
    )


def is_pointer(key: str) -> bool:
    """Whether a key names the last or the best of several: often an exact copy of another object."""
    return _NEVER.search(key) is None and _POINTERS.search(key.rpartition("/")[2]) is not None


def with_part(step: StepKey, part: str) -> str | None:
    """The key of another step. part: what stands in the place of the first part of the path that differs.

    Where its number is repeated further down, it is repeated there as well. None: a part of another pattern.
    """
    own = step.pattern.fullmatch(step.key)
    assert own is not None
    depth = step.listed.count("/")
    match = re.fullmatch(step.pattern.pattern.split("/")[depth], part)
    if match is None:
        return None
    texts = dict(zip(step.names, match.groups(), strict=False))
    key, at = step.listed + part, len(step.key) - len(step.folder)
    for group in range(len(match.groups()) + 1, len(step.names) + 1):
        start, end = own.span(group)
        key += step.key[at:start] + texts.get(step.names[group - 1], own[group])
        at = end
    return key + step.key[at:]


def _spans(key: str) -> list[tuple[int, int, str, int]]:
    """(start, end, name, number) of every number that tells a step, in order."""
    closed = [match.span() for match in (*_SHARD.finditer(key), *_METRIC.finditer(key))]
    spans: list[tuple[int, int, str, int]] = []

    def add(start: int, end: int, name: str) -> None:
        if not any(start < other_end and other_start < end for other_start, other_end in closed):
            spans.append((start, end, name, int(key[start:end])))
            closed.append((start, end))

    for pair in _PAIR.finditer(key):
        add(*pair.span("epoch"), "epoch")
        add(*pair.span("step"), "step")
    for match in _NUMBER.finditer(key):
        word = match["word"].lower()
        if word == "copy":
            continue
        add(*match.span("number"), "epoch" if word in ("epoch", "ep") else "step")
    return sorted(spans)


def _escaped(text: str) -> str:
    """A pattern for a part of a key without step numbers; metrics match whatever they are."""
    pattern, at = "", 0
    for match in _METRIC.finditer(text):
        pattern += re.escape(text[at : match.end("name")]) + r"-?[\d.]*\d"
        at = match.end()
    return pattern + re.escape(text[at:])


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(names, reverse=True)  # step, then epoch
