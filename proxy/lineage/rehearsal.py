"""Steps that are watched, or only rehearsed: what they would add and remove is, for them and those after them, as if done."""

from __future__ import annotations

from typing import Any, TypeVar

from .calls import Call, ListUnder, Look, Put, Read, Remove, Steps

_T = TypeVar("_T")


class Rehearsal:
    """Steps that commit nothing, one after another. is_dry: nothing is changed in the bucket."""

    def __init__(self, *, is_dry: bool) -> None:
        self._is_dry = is_dry
        self._added: dict[str, bytes] = {}
        self._removed: dict[str, None] = {}
        self._untold: list[str] = []

    def over(self, steps: Steps[_T]) -> Steps[_T]:
        """The same steps, watched."""
        try:
            call = next(steps)
            while True:
                try:
                    answer = yield from self._answer(call)
                except Exception as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            steps.close()

    def removed(self) -> list[str]:
        """What was removed since this was asked last, in order; not what the steps themselves had added."""
        told, self._untold = self._untold, []
        return told

    def _answer(self, call: Call) -> Steps[Any]:
        if isinstance(call, Put | Remove):
            if not self._is_dry:
                yield call
            self._note(call)
            return None
        if not self._is_dry:
            return (yield call)
        match call:
            case ListUnder(prefix):
                there = [key for key in (yield call) if key not in self._removed]
                return sorted({*there, *(key for key in self._added if key.startswith(prefix))})
            case Read(key) if key in self._added:
                return self._added[key]
            case Read(key) | Look(key) if key in self._removed:
                return None
            case Read() | Look():
                return (yield call)
        raise AssertionError(f"expected a call that changes no object of a client's, found {call}")

    def _note(self, call: Put | Remove) -> None:
        if isinstance(call, Put):
            self._added[call.key] = call.text
        elif self._added.pop(call.key, None) is None and call.key not in self._removed:
            self._removed[call.key] = None
            self._untold.append(call.key)
