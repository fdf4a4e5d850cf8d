"""docs/clients.md: written from what ran, and read again to be compared with the code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.e2e.clients.catalogue import OPERATIONS, PROGRAMS, ROOT, Program

DOCUMENT: Final = ROOT / "docs" / "clients.md"
_HEAD: Final = """# Clients

`make clients` runs these clients through the proxy and writes this page; nothing in it is written by hand. Each one runs in
front of a SeaweedFS server and in front of a local directory, over plain http, in the newest version that it installs with. It
sends bodies that are checkpoints and bodies that are not: PUT with short ones, multipart, GET, range, copy and delete with ones of
several parts, list and sync with all. What it did is looked at with another client and in the bucket: the same bytes, size and
ETag everywhere, checkpoints stored in fewer bytes, other bodies as they are; and a second sync writes nothing.

"yes": on both buckets, with both kinds of body; a client's own ways are tried with checkpoints, rclone's with both. "-": the
client has no such call. awscli runs by its driver in one process, which `tests/e2e/test_clients.py` completes by the program.

"""
_TITLES: Final = ("client", "version", *OPERATIONS, "its own ways", "to be set, to be known")
_NOT_RUN: Final = "not run: "
_ROW: Final = re.compile(r"^\| ([^|-][^|]*?) \| ([^|]+?) \| (?:yes|-|no|not run)", re.MULTILINE)


@dataclass
class Outcome:
    """Of one client. version: or `not run: ` and why; buckets: where it ran; failed: operation to those where it failed."""

    version: str
    buckets: list[str] = field(default_factory=list)
    failed: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def not_run(cls, reason: str) -> Outcome:
        return cls(_NOT_RUN + reason)

    @property
    def is_whole(self) -> bool:
        """Whether it ran on both buckets, or could not run."""
        return self.version.startswith(_NOT_RUN) or len(self.buckets) == 2

    def add(self, bucket: str, results: Mapping[str, str]) -> None:
        """results: operation to what went wrong, "" where nothing did."""
        self.buckets.append(bucket)
        for operation, said in results.items():
            if said:
                self.failed.setdefault(operation, []).append(bucket)


def render(outcomes: Mapping[str, Outcome]) -> str:
    """The whole page."""
    lines = [_line(_TITLES), _line("---" for _ in _TITLES)]
    lines += [_line(_cells(program, outcomes[program.name])) for program in PROGRAMS]
    return _HEAD + "\n".join(lines) + "\n"


def read_versions(text: str) -> dict[str, str]:
    """Client to version, of a page that was rendered."""
    return dict(_ROW.findall(text))


def _cells(program: Program, outcome: Outcome) -> list[str]:
    ran = not outcome.version.startswith(_NOT_RUN)
    cells = [program.name, outcome.version]
    for operation in OPERATIONS:
        has = operation not in program.lacks
        cells.append((_verdict(outcome, operation) if ran else "not run") if has else "-")
    own = [f"{name}: {_verdict(outcome, name)}" for name in program.own] if ran else []
    return [*cells, "; ".join(own) or "-", program.remarks or "-"]


def _verdict(outcome: Outcome, operation: str) -> str:
    buckets = outcome.failed.get(operation)
    return f"no ({', '.join(buckets)})" if buckets else "yes"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
