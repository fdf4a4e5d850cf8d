"""kill -9 while the bucket holds a call of ours: old or new, never half, and the next start ends what was begun."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from .conftest import BUCKET
from .operations import COMPLETE, CREATE, PART, PUT, Stage, body
from .script import Fault, Kind, Rule

pytestmark = pytest.mark.e2e

# What is held, and whether the new object may be there afterwards.
HELD = {
    "put": (PUT, Kind.STALL, "small", False),
    "create": (CREATE, Kind.STALL, "large", False),
    "part": (PART, Kind.STALL_IN_REQUEST, "large", False),
    "complete": (COMPLETE, Kind.STALL, "large", False),
    "complete-done": (COMPLETE, Kind.STALL_IN_ANSWER, "large", True),
    "put-passing-through": (PUT, Kind.STALL_IN_REQUEST, "noise", False),
}

EVERYDAY = ("part", "complete-done")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in EVERYDAY else [pytest.mark.slow]) for name in HELD]
)
def test_a_kill_leaves_the_old_object_or_the_whole_new_one(broken, name):
    stage, kind, content, is_done = HELD[name]
    key, old, new = f"kill-{name}", b"old", body(content)
    broken.proxy.client().put_object(Bucket=BUCKET, Key=key, Body=old)
    rule = broken.fails(Rule(Fault(kind), stage.method, stage.target.format(key=key)))

    def write() -> None:
        with contextlib.suppress(ClientError, BotoCoreError):
            broken.proxy.client().put_object(Bucket=BUCKET, Key=key, Body=new)

    writing = threading.Thread(target=write)
    writing.start()
    wait_for_hit(rule)
    broken.proxy.kill()
    writing.join()
    broken.script.clear()
    broken.proxy.start()
    assert broken.body(key) == (new if is_done else old)
    broken.assert_nothing_open(key)


def wait_for_hit(rule: Rule) -> None:
    deadline = time.monotonic() + 30
    while not rule.hits:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.3)  # until the server has carried out what was passed on


def test_a_start_while_the_bucket_refuses_aborts_leaves_that_for_later(broken):
    key = "kill-twice"
    client = broken.proxy.client()
    upload = {"Bucket": BUCKET, "Key": key}
    upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
    client.upload_part(**upload, PartNumber=1, Body=body("noise"))
    assert broken.open_uploads(key) == [key]
    broken.proxy.kill()
    aborts: Stage = Stage("DELETE", "uploadId=")
    broken.fails(Rule(Fault(Kind.REFUSED, 403, "AccessDenied"), aborts.method, aborts.target))
    broken.proxy.start()
    assert broken.open_uploads(key) == broken.records(key) == [key]
    broken.proxy.kill()
    broken.proxy.start()
    broken.assert_nothing_open(key)
