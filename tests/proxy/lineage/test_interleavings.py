"""No order of calls, and no death in between, leaves an object without its base."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from s4weights.proxy.lineage.calls import Commit, Look, Need, NewObject
from s4weights.proxy.lineage.names import (
    ALL_HIDDEN,
    ALL_PINS,
    ALL_TOMBS,
    content_of,
    hidden_depth,
    is_hidden,
    pin_key,
    pin_text,
)
from s4weights.proxy.lineage.protocol import claim, collect, copy_needs, replace, unclaim
from s4weights.proxy.lineage.sweep import missing_pins, pin_again, sweep_hidden, sweep_pin, sweep_tomb

from .model import Explorer, Stored, content, lost, run

OLD, NEW, NEWER, OTHER = content("old"), content("new"), content("newer"), content("other")
Steps = Generator[Any, Any, Any]


def write(key: str, body: NewObject, base: Need | None = None) -> Steps:
    """As the proxy writes: claim, encode, replace."""
    needs: tuple[Need, ...] = ()
    if base is not None and (yield from claim(base, key)):
        needs = (base,)
    new = NewObject(body.content, base.depth + 1 if base and needs else body.depth, needs)
    yield from replace(key, new, attempts=3)


def delete(key: str) -> Steps:
    yield from replace(key, None, attempts=3)


def copy(source: str, target: str) -> Steps:
    found = yield Look(source)
    if found is None:
        return
    needs = yield from copy_needs(source, found, target)
    if needs is None:
        return
    # The copy itself: its source may be another one by now, and then the bucket refuses.
    now = yield Look(source)
    if now is None or now.etag != found.etag:
        yield from unclaim(needs, target)
        return
    yield from replace(target, NewObject(found.content, found.depth, needs), attempts=3)


def need(base: str, key: str, nonce: str, depth: int = 0) -> Need:
    return Need(content(base), depth, nonce, key)


def pinned(start: dict[str, Stored], key: str, name: str, base: Need) -> None:
    """An object at key that needs base, and its pin."""
    start[key] = Stored(f"e-{key}", NewObject(content(name), base.depth + 1, (base,)))
    start[pin_key(base.content, key, base.nonce)] = Stored("pin", None, pin_text(key))


def plain(name: str) -> Stored:
    return Stored(f"e-{name}", NewObject(content(name)))


def test_a_writer_and_a_remover() -> None:
    explorer = Explorer(
        {"a": plain("old")}, [lambda: write("b", NewObject(NEW), need("old", "a", "w")), lambda: delete("a")], 2
    )
    explorer.explore(lost)
    assert explorer.states > 100


def test_a_writer_and_an_overwriter() -> None:
    Explorer(
        {"a": plain("old")},
        [lambda: write("b", NewObject(NEW), need("old", "a", "w")), lambda: write("a", NewObject(OTHER))],
        2,
    ).explore(lost)


@pytest.mark.slow
def test_two_writers_and_a_remover() -> None:
    Explorer(
        {"a": plain("old")},
        [
            lambda: write("b", NewObject(NEW), need("old", "a", "w")),
            lambda: write("c", NewObject(NEWER), need("old", "a", "x")),
            lambda: delete("a"),
        ],
        1,
    ).explore(lost)


@pytest.mark.slow
def test_a_writer_a_remover_and_the_end_of_another_dependent() -> None:
    """The other dependent's end collects the hidden copy that the writer may come to need."""
    start = {"a": plain("old")}
    pinned(start, "d", "other", need("old", "a", "p"))
    Explorer(
        start,
        [
            lambda: write("b", NewObject(NEW), need("old", "a", "w")),
            lambda: delete("a"),
            lambda: delete("d"),
        ],
        1,
    ).explore(lost)


@pytest.mark.slow
def test_a_chain_loses_its_middle_while_its_end_goes() -> None:
    start = {"a": plain("old")}
    pinned(start, "b", "new", need("old", "a", "p"))
    pinned(start, "c", "newer", need("new", "b", "q", 1))
    Explorer(start, [lambda: delete("b"), lambda: delete("a"), lambda: delete("c")], 1).explore(lost)


@pytest.mark.slow
def test_a_dependent_is_copied_while_it_and_its_base_go() -> None:
    start = {"a": plain("old")}
    pinned(start, "b", "new", need("old", "a", "p"))
    Explorer(start, [lambda: copy("b", "c"), lambda: delete("b"), lambda: delete("a")], 1).explore(lost)


def test_a_dependent_becomes_plain_while_its_base_goes_and_another_takes_it_as_base() -> None:
    start = {"a": plain("old")}
    pinned(start, "b", "new", need("old", "a", "p"))
    Explorer(
        start,
        [
            lambda: write("b", NewObject(NEW)),
            lambda: delete("a"),
            lambda: write("c", NewObject(NEWER), need("new", "b", "w", 1)),
        ],
        1,
    ).explore(lost)


def test_an_object_comes_to_need_a_copy_of_itself() -> None:
    """Equal bodies at two keys, each written against the other: depth keeps them from meeting in a circle."""
    Explorer(
        {"a": plain("old")},
        [
            lambda: write("b", NewObject(OLD), need("old", "a", "w")),
            lambda: write("a", NewObject(OLD), need("old", "b", "x", 1)),
        ],
        1,
    ).explore(lost)


@pytest.mark.slow
def test_collectors_meet_a_writer() -> None:
    start = {"a": plain("old"), f"{ALL_HIDDEN}{OLD}/0.h": plain("old")}
    Explorer(
        start,
        [
            lambda: collect(OLD),
            lambda: write("b", NewObject(NEW), need("old", "a", "w")),
            lambda: delete("a"),
        ],
        1,
    ).explore(lost)


def test_without_a_death_nothing_of_ours_stays_behind() -> None:
    """The base and then its dependents go, one after another: the bucket is empty."""
    start = {"a": plain("old")}
    pinned(start, "b", "new", need("old", "a", "p"))
    pinned(start, "c", "newer", need("new", "b", "q", 1))

    def all_of_them() -> Steps:
        for key in ("a", "b", "c"):
            yield from delete(key)

    explorer = Explorer(start, [all_of_them], 0)
    explorer.explore(lost)
    assert explorer.ends == {frozenset()}


def test_hidden_copies_never_hold_one_another() -> None:
    """`last` is written with the body of a step, against it; `best` with that body again, against a later step; all are rotated."""
    start = {"a": plain("old")}
    pinned(start, "last", "old", need("old", "a", "p"))
    pinned(start, "b", "new", need("old", "a", "q"))
    pinned(start, "best", "old", need("new", "b", "r", 1))
    pinned(start, "c", "newer", need("old", "best", "s", 2))
    names = ("last", "best", "a", "b", "c")

    def all_of_them() -> Steps:
        for key in names:
            yield from delete(key)

    explorer = Explorer(start, [all_of_them], 1)
    explorer.explore(lost)
    ends = [dict(end) for end in explorer.ends]
    assert any(key.startswith(ALL_HIDDEN) for end in ends for key in end)
    assert {} in ends
    for end in ends:
        for key in names:
            run(end, delete(key))
        sweep(end)
        assert end == {}


def rotated() -> dict[str, Stored]:
    start = {"a": plain("old")}
    pinned(start, "last", "old", need("old", "a", "p"))
    pinned(start, "b", "new", need("old", "last", "q", 1))
    return start


def test_a_shallower_copy_takes_the_place_of_a_deeper_one_while_another_is_written_on_it() -> None:
    start = rotated()
    run(start, delete("last"))
    assert [hidden_depth(key) for key in start if key.startswith(ALL_HIDDEN)] == [1]
    Explorer(
        start, [lambda: delete("a"), lambda: write("c", NewObject(NEWER), need("old", "last", "w", 1))], 1
    ).explore(lost)
    run(start, delete("a"))
    assert [hidden_depth(key) for key in start if key.startswith(ALL_HIDDEN)] == [0]


def test_a_shallower_copy_that_holds_something_else_takes_no_place() -> None:
    start = rotated()
    run(start, delete("last"))
    start[f"{ALL_HIDDEN}{OLD}/0.other"] = plain("other")  # as its name says, but for what is in it
    start[f"{ALL_HIDDEN}{OLD}/0.deeper"] = Stored("e-deeper", NewObject(OLD, 2, (need("newer", "gone", "z", 1),)))
    Explorer(start, [lambda: sweep_hidden(OLD), lambda: sweep_hidden(OLD)], 1).explore(lost)
    run(start, sweep_hidden(OLD))
    assert lost(start) == []


def test_gc_meets_a_copy_that_is_not_checked_yet() -> None:
    """A bucket that copies whatever is there: what was kept aside before is all there is until the copy was looked at."""
    start = rotated()
    run(start, delete("last"))
    start["z"] = plain("old")

    def past_the_proxy() -> Steps:
        found = yield Look("z")
        yield Commit("z", found.etag if found is not None else None, NewObject(OTHER))

    Explorer(start, [lambda: delete("z"), past_the_proxy, lambda: sweep_hidden(OLD)], 1, copies_blindly=True).explore(
        lost
    )


@pytest.mark.slow
def test_gc_meets_a_removal_that_keeps_a_shallower_copy() -> None:
    start = rotated()
    run(start, delete("last"))
    Explorer(start, [lambda: delete("a"), lambda: sweep_hidden(OLD), lambda: sweep_hidden(OLD)], 1).explore(lost)


@pytest.mark.slow
def test_both_of_equal_bodies_go_at_once() -> None:
    Explorer(rotated(), [lambda: delete("last"), lambda: delete("a")], 1).explore(lost)


@pytest.mark.slow
def test_whatever_deaths_leave_behind_a_sweep_takes_away_and_nothing_else() -> None:
    start = {"a": plain("old")}
    pinned(start, "d", "other", need("old", "a", "p"))
    explorer = Explorer(start, [lambda: write("b", NewObject(NEW), need("old", "a", "w")), lambda: delete("a")], 2)
    explorer.explore(lost)
    for end in explorer.ends:
        objects = dict(end)
        visible = {key for key in objects if not is_hidden(key)}
        sweep(objects)
        assert lost(objects) == []
        assert {key for key in objects if not is_hidden(key)} == visible
        for key in [key for key in visible if key != "a"]:
            run(objects, delete(key))
        sweep(objects)
        assert set(objects) == visible & {"a"}


def test_an_object_copied_past_the_proxy_is_pinned_again() -> None:
    start = {"a": plain("old")}
    pinned(start, "b", "new", need("old", "a", "p"))
    start["c"] = start["b"]
    body = start["c"].new
    assert body is not None
    assert run(start, missing_pins("b", body.needs)) == []
    unheld = run(start, missing_pins("c", body.needs))
    assert unheld == list(body.needs)
    run(start, pin_again("c", unheld))
    for key in ("b", "a"):
        run(start, delete(key))
    assert lost(start) == []
    assert [key for key in start if key.startswith(ALL_HIDDEN)]


def sweep(objects: dict[str, Stored]) -> None:
    """As `gc` does, with everything past its grace period."""
    for key in sorted(objects):
        if key.startswith(ALL_PINS):
            run(objects, sweep_pin(key))
    for key in sorted(objects):
        if key.startswith(ALL_TOMBS):
            run(objects, sweep_tomb(key))
    for key in sorted(objects):
        if key.startswith(ALL_HIDDEN):
            run(objects, sweep_hidden(content_of(key)))


@pytest.mark.parametrize("broken", ["no tombstone", "no pins"])
def test_the_explorer_finds_what_a_broken_protocol_loses(broken: str) -> None:
    hidden = {"no tombstone": ALL_TOMBS, "no pins": ALL_PINS}[broken]

    def blind(steps: Steps) -> Steps:
        answer = None
        while True:
            try:
                call = steps.send(answer)
            except StopIteration:
                return
            answer = [] if getattr(call, "prefix", "").startswith(hidden) else (yield call)

    explorer = Explorer(
        {"a": plain("old")},
        [
            lambda: blind(write("b", NewObject(NEW), need("old", "a", "w"))),
            lambda: blind(delete("a")),
        ],
        0,
    )
    with pytest.raises(AssertionError, match="after:"):
        explorer.explore(lost)
