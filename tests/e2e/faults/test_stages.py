"""Each fault at each stage of each call: a client with its usual retries succeeds, and nothing is left behind."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import pytest
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError

from .conftest import BUCKET, Broken
from .operations import CREATE, OPERATIONS, Operation, Stage, body
from .script import Fault, Kind, Rule

pytestmark = pytest.mark.e2e
# Stalls wait side by side.
AT_ONCE = 6
EVERYDAY = 7
Case: TypeAlias = tuple[Operation, str, Stage, Fault]


def name_of(fault: Fault) -> str:
    code = f"-{fault.status}" if fault.kind in (Kind.REFUSED, Kind.REFUSED_AFTER) else ""
    return fault.kind.name.lower().replace("_", "-") + code


def try_one(broken: Broken, operation: Operation, name: str, stage: Stage, fault: Fault) -> str:
    """Why this case failed; empty where it went well."""
    key, data = f"{name}-{name_of(fault)}.", body(operation.content)
    client = broken.proxy.client(attempts=4)
    if operation.is_there_before:
        client.put_object(Bucket=BUCKET, Key=key, Body=data)
    # The first request is the one that finds the object, the second one the first that reads of it.
    first = 2 if stage.gets and operation.content != "small" else 1
    rule = broken.fails(Rule(fault, stage.method, stage.target.format(key=re.escape(key)), first=first))
    # The bucket then does not know the part by the name that it gave: the upload has to fail, and be begun again.
    ends_upload = fault.kind is Kind.WRONG_ETAG and operation.is_in_parts
    try:
        try:
            operation.act(client, key, data)
            assert not ends_upload, "the client was told that all went well"
            operation.check(client, key, data)
        except S3UploadFailedError:
            if not ends_upload:
                raise
            assert broken.body(key) is None
        assert rule.hits == 1, f"the fault was met {rule.hits} times"
        if stage is CREATE and fault.kind in (Kind.LOST_ANSWER, Kind.REFUSED_AFTER):
            # Nobody was told its name: it stays until it is old (see test_leftovers.py), and is not forgotten.
            assert broken.open_uploads(key) == broken.records(key, "asked") == [key]
        else:
            broken.assert_nothing_open(key)
            assert not broken.records(key, "asked") or stage is CREATE
    except Exception as error:
        return f"{key}: {type(error).__name__}: {error}"[:400]
    return ""


def cases_of(name: str) -> list[Case]:
    operation = OPERATIONS[name]
    return [
        (operation, f"{name}-{stage}", one, fault) for stage, one in operation.stages.items() for fault in one.faults()
    ]


def try_all(broken: Broken, cases: list[Case]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda case: try_one(broken, *case), cases))
    failed = [outcome for outcome in outcomes if outcome]
    assert not failed, "\n".join(failed)


def everyday() -> list[Case]:
    """Every so manieth case, and one of each kind of fault that is not among them."""
    cases = [case for name in OPERATIONS for case in cases_of(name)]
    chosen = cases[::EVERYDAY]
    for case in cases:
        if case[3].kind not in {fault.kind for *_, fault in chosen}:
            chosen.append(case)
    return chosen


def test_faults_are_mended_or_tried_again(broken):
    try_all(broken, everyday())


def test_everyday_cases_meet_each_call():
    assert {name.rpartition("-")[0] for _, name, *_ in everyday()} == set(OPERATIONS)


@pytest.mark.slow
@pytest.mark.skipif("ALL_FAULTS" not in os.environ, reason="minutes; ALL_FAULTS=1 runs them")
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_fault_at_each_stage_is_mended_or_tried_again(broken, name):
    try_all(broken, cases_of(name))


def test_what_the_bucket_gives_back_changed_is_never_given_out(broken):
    """A container that was changed on its way back breaks the answer off, and is whole at the next try."""
    client, data = broken.proxy.client(), body("large")
    client.put_object(Bucket=BUCKET, Key="changed", Body=data)
    broken.fails(Rule(Fault(Kind.CORRUPT_ANSWER), "GET", "/changed", times=10))
    with pytest.raises((ClientError, BotoCoreError)):
        client.get_object(Bucket=BUCKET, Key="changed")["Body"].read()
    broken.script.clear()
    assert broken.body("changed") == data
