"""Calls are repeated with a pause, for a time, and not where it makes no sense; a circuit tells that nothing answers."""

from __future__ import annotations

import asyncio

import pytest

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.bucket import calls as calling
from s4weights.proxy.upstream.bucket.calls import ATTEMPTS, Calls, Patience, pause_s
from s4weights.proxy.upstream.bucket.circuit import COOL_S, FAULTS, SPAN_S, Circuit


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Answers:
    """A bucket that raises these, one after the other, and then answers."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.made = 0

    async def __call__(self) -> str:
        self.made += 1
        if self.faults:
            raise self.faults.pop(0)
        return "answer"


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """The pauses that were asked for; none is made."""
    asked: list[float] = []

    async def sleep(seconds: float) -> None:
        asked.append(seconds)

    monkeypatch.setattr(calling.asyncio, "sleep", sleep)
    return asked


def new_calls() -> Calls:
    return Calls(Circuit(), Patience(silence_s=1, total_s=30))


def test_pauses_are_drawn_at_random_and_are_what_the_bucket_asked_for_at_least():
    drawn = [pause_s(4) for _ in range(200)]
    assert 0 <= min(drawn) < 1 < 3 < max(drawn) <= 4
    assert pause_s(1, UpstreamError("x", retry_after_s=7.0)) == 7.0
    assert max(pause_s(20) for _ in range(200)) <= 8


async def test_a_call_is_made_again_until_it_is_answered(pauses):
    answers, repeats = Answers(UpstreamError("x"), UpstreamError("x", retry_after_s=3.0)), []
    assert await new_calls().make("call", answers, on_repeat=lambda: repeats.append(1)) == "answer"
    assert (answers.made, len(repeats)) == (3, 2)
    assert pauses[1] == 3.0


async def test_a_call_is_given_up_after_some_tries(pauses):
    answers = Answers(*(UpstreamError("x") for _ in range(20)))
    with pytest.raises(UpstreamError) as error:
        await new_calls().make("call", answers)
    assert answers.made == ATTEMPTS
    assert error.value.was_repeated


@pytest.mark.parametrize(
    "fault", [UpstreamError("later than anybody waits", retry_after_s=31.0), UpstreamError("x", may_pass=False)]
)
async def test_a_call_is_not_made_again_where_it_makes_no_sense(pauses, fault):
    answers = Answers(fault)
    with pytest.raises(UpstreamError):
        await new_calls().make("call", answers)
    assert (answers.made, pauses) == (1, [])


async def test_a_refusal_tells_whether_an_earlier_try_had_no_answer(pauses):
    for faults, expected in (([], False), ([UpstreamError("x")], True)):
        with pytest.raises(S3Error) as error:
            await new_calls().make("call", Answers(*faults, S3Error("PreconditionFailed")))
        assert error.value.after_fault is expected


async def test_what_was_changed_on_its_way_is_sent_again_some_times(pauses):
    assert await new_calls().make("call", Answers(S3Error("BadDigest"), S3Error("BadDigest"))) == "answer"
    with pytest.raises(UpstreamError, match="what arrived is not what was sent"):
        await new_calls().make("call", Answers(*(S3Error("BadDigest") for _ in range(3))))


async def test_a_call_that_looks_busy_for_ever_is_given_up():
    calls = Calls(Circuit(), Patience(silence_s=0.02, total_s=0))
    with pytest.raises(UpstreamError, match="no answer in time"):
        await calls.make("call", lambda: asyncio.sleep(60))


def test_a_circuit_opens_after_faults_in_a_row_over_a_while_and_closes_by_itself():
    clock = Clock()
    circuit = Circuit(clock)
    for _ in range(3 * FAULTS):
        circuit.failed("all at once")
    assert not circuit.is_open
    clock.now_s += SPAN_S
    circuit.failed("refused")
    assert circuit.is_open
    assert circuit.fault().endswith("failed: refused")
    clock.now_s += COOL_S + 1
    assert circuit.is_open
    assert circuit.fault() == ""  # a probe may find out
    circuit.answered()
    assert not circuit.is_open
    clock.now_s += 60
    for _ in range(FAULTS):
        circuit.failed("again")
    assert not circuit.is_open


async def test_calls_are_made_once_while_the_circuit_is_open(pauses):
    clock = Clock()
    calls = Calls(Circuit(clock), Patience())
    for _ in range(FAULTS):
        calls.circuit.failed("x")
    clock.now_s += SPAN_S
    answers = Answers(UpstreamError("x"))
    with pytest.raises(UpstreamError):
        await calls.make("call", answers)
    assert (answers.made, pauses) == (1, [])
    assert await calls.make("call", answers) == "answer"
    assert not calls.circuit.is_open
