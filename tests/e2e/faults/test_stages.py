"""Each fault at each stage of each call: a client with its usual retries succeeds, and nothing is left behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from .conftest import BUCKET, Broken
from .operations import CREATE, OPERATIONS, Operation, Stage, body
from .script import Fault, Kind, Rule

pytestmark = pytest.mark.e2e
# Stalls wait side by side.
AT_ONCE = 6


def name_of(fault: Fault) -> str:
    code = f"-{fault.status}" if fault.kind in (Kind.REFUSED, Kind.REFUSED_AFTER) else ""
    return fault.kind.name.lower().replace("_", "-") + code


def try_one(broken: Broken, operation: Operation, name: str, stage: Stage, fault: Fault) -> str:
    """Why this case failed; empty where it went well."""
    key, data = f"{name}-{name_of(fault)}", body(operation.content)
    healthy, client = broken.proxy.client(attempts=4), broken.proxy.client(attempts=4)
    if operation.is_there_before:
        healthy.put_object(Bucket=BUCKET, Key=key, Body=data)
    # The first request is the one that finds the object, the second one the first that reads of it.
    first = 2 if stage.gets and operation.content != "small" else 1
    rule = broken.fails(Rule(fault, stage.method, stage.target.format(key=key), first=first))
    try:
        operation.act(client, key, data)
        assert rule.hits == 1, f"the fault was met {rule.hits} times"
        operation.check(healthy, key, data)
        if stage is CREATE and fault.kind in (Kind.LOST_ANSWER, Kind.REFUSED_AFTER):
            # Nobody was told its name: it stays until it is old (see test_leftovers.py), and is not forgotten.
            assert broken.open_uploads(key) == broken.records(key, "asked") == [key]
        else:
            broken.assert_nothing_open(key)
            assert not broken.records(key, "asked") or stage is CREATE
    except Exception as error:
        return f"{key}: {type(error).__name__}: {error}"[:400]
    return ""


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_fault_at_any_stage_is_mended_or_tried_again(broken, name):
    operation = OPERATIONS[name]
    cases = [(f"{name}-{stage}", one, fault) for stage, one in operation.stages.items() for fault in one.faults()]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda case: try_one(broken, operation, *case), cases))
    failed = [outcome for outcome in outcomes if outcome]
    assert not failed, "\n".join(failed)
