"""What goes wrong, and when: rules that the relay looks up for every request."""

from __future__ import annotations

import enum
import random
import re
import threading
from dataclasses import dataclass, field


class Kind(enum.Enum):
    """One fault of a network, or of the server behind it."""

    REFUSED = enum.auto()
    """An error document instead of passing the request on (`Fault.status`, `code`, `retry_after_s`)."""
    RESET_BEFORE = enum.auto()
    """A reset before anything was passed on."""
    RESET_IN_REQUEST = enum.auto()
    """A reset in the middle of the request's body."""
    LOST_ANSWER = enum.auto()
    """Passed on and carried out; a reset instead of the answer."""
    REFUSED_AFTER = enum.auto()
    """Passed on and carried out; an error document instead of the answer."""
    STALL = enum.auto()
    """Nothing is passed on, nothing answered; the connection stays."""
    STALL_IN_REQUEST = enum.auto()
    """The request's body is no longer read half-way."""
    STALL_IN_ANSWER = enum.auto()
    """Half of the answer's body, then silence."""
    TRICKLE = enum.auto()
    """The answer's body byte by byte: never silent, never done."""
    SLOW = enum.auto()
    """The answer's body at `Fault.bytes_s`."""
    TRUNCATED = enum.auto()
    """Half of the answer's body, then the end of the connection."""
    WRONG_ETAG = enum.auto()
    """Another ETag in the answer's headers."""
    CORRUPT_REQUEST = enum.auto()
    """One bit of the request's body is another one."""
    CORRUPT_ANSWER = enum.auto()
    """One bit of the answer's body is another one."""


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    status: int = 503
    code: str = "SlowDown"
    retry_after_s: int | None = None
    bytes_s: int = 1 << 20


def refused(status: int, code: str, retry_after_s: int | None = None) -> Fault:
    return Fault(Kind.REFUSED, status, code, retry_after_s)


@dataclass(slots=True)
class Rule:
    """A fault for the requests that match. first: the how manieth of them is the first to fail; times: how many fail.

    target: searched in path and query as on the wire. holds: searched in the head. chance: of each of them.
    """

    fault: Fault
    method: str = "."
    target: str = ""
    first: int = 1
    times: int = 1
    chance: float = 1.0
    holds: str = ""
    seen: int = 0
    hits: int = 0


@dataclass(slots=True)
class Script:
    """The rules of a relay; may be changed while it runs."""

    rules: list[Rule] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Method and target of every request since `clear`, bounded."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _random: random.Random = field(default_factory=lambda: random.Random(0))

    def add(self, rule: Rule) -> Rule:
        with self._lock:
            self.rules.append(rule)
        return rule

    def clear(self) -> None:
        with self._lock:
            self.rules.clear()
            self.requests.clear()

    def fault_for(self, method: str, target: str, head: str) -> Fault | None:
        """The fault of the first rule that is due."""
        with self._lock:
            if len(self.requests) < 10_000:
                self.requests.append(f"{method} {target}")
            for rule in self.rules:
                if not re.match(rule.method, method) or not re.search(rule.target, target):
                    continue
                if rule.holds and not re.search(rule.holds, head):
                    continue
                rule.seen += 1
                due = rule.first <= rule.seen < rule.first + rule.times
                if due and (rule.chance >= 1 or self._random.random() < rule.chance):
                    rule.hits += 1
                    return rule.fault
        return None
