"""What processes that died have left behind, taken away again; steps without I/O, as in protocol.py.

Only what is older than a grace period is looked at (timing.py): younger pins and tombstones may belong to writes and removals
that are under way.
"""

from __future__ import annotations

from collections.abc import Sequence

from .calls import ListUnder, Look, Need, Put, Read, Remove, Steps
from .names import (
    Content,
    content_of,
    hidden_of,
    is_pin_of,
    new_nonce,
    pin_key,
    pin_text,
    pins_of,
    read_pin,
)
from .protocol import collect, pins_by_others, supersede


def sweep_pin(pin: str, *, dry_run: bool = False) -> Steps[bool]:
    """Remove a pin whose dependent does not need the base (any more). Returns whether it was one."""
    text = yield Read(pin)
    if text is None:
        return False
    dependent = read_pin(text)
    content = content_of(pin)
    found = yield Look(dependent)
    if found is not None and (not found.is_known or any(need.content == content for need in found.needs)):
        return False
    if not dry_run:
        yield Remove(pin)
    return True


def sweep_tomb(tomb: str, *, dry_run: bool = False) -> Steps[bool]:
    """Remove the tombstone of a removal that never ended."""
    if not dry_run:
        yield Remove(tomb)
    return True


def sweep_hidden(content: Content, *, dry_run: bool = False) -> Steps[bool]:
    """Remove the hidden copies of a body that nothing is pinned to but one another. Returns whether there were any.

    Of one that is pinned, the shallowest copy is enough.
    """
    hidden = yield ListUnder(hidden_of(content))
    if not hidden:
        return False
    if (yield from pins_by_others(content, hidden)):
        if not dry_run:
            yield from supersede(content)
        return False
    if not dry_run:
        yield from collect(content)
    return True


def missing_pins(dependent: str, needs: Sequence[Need]) -> Steps[list[Need]]:
    """Of an object's bases, those that nothing holds for it: somebody copied it past the proxy."""
    unheld = []
    for need in needs:
        pins = yield ListUnder(pins_of(need.content))
        if not any(is_pin_of(pin, dependent) for pin in pins):
            unheld.append(need)
    return unheld


def pin_again(dependent: str, needs: Sequence[Need]) -> Steps[None]:
    """Pins for an object that has lost its own."""
    for need in needs:
        yield Put(pin_key(need.content, dependent, new_nonce()), pin_text(dependent))
