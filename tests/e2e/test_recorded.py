"""What real clients sent, sent again straight and through: the same answers, call by call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.differential import Side
from tests.e2e.recorded import CORPUS, load
from tests.e2e.test_differential import expected, sides

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
__all__ = ["sides"]  # a fixture
FILES = sorted(CORPUS.glob("*.jsonl"))


def test_there_is_enough_of_it() -> None:
    assert len(FILES) >= 14
    assert sum(len(list(load(file))) for file in FILES) >= 300


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_a_client_sent_is_answered_alike(file: Path, sides: tuple[Side, Side]) -> None:
    known: tuple[dict[str, str], ...] = ({}, {})
    differences = []
    for recorded in load(file):
        answers = []
        for side, given in zip(sides, known, strict=True):
            answer = side.send(recorded.request(side.bucket, given))
            recorded.learn(answer, given)
            answers.append(answer.seen())
        straight, through = answers
        shown = f"{recorded.method} {recorded.target} {recorded.headers}"
        if expected(shown, straight) != through:
            differences.append(f"{shown}\n    straight {straight}\n    through  {through}")
    assert not differences, "\n".join(differences)
