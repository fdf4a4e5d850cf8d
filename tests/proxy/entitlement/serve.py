"""`s4weights serve` with AWS's link-local addresses where the stand-ins are. Nothing else differs from the product.

usage: python -m tests.proxy.entitlement.serve

Loads the product once, and forks a process of its own for each line of stdin: {"arguments", "variables", "log", "addresses"};
answers with its process id. A line with a number asks for that process's exit code, and is answered with it, or with null.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import aiobotocore.session  # noqa: F401 - as all of these, once instead of in every process
import asn1crypto.cms  # noqa: F401
import jwt  # noqa: F401
import uvloop  # noqa: F401

import s4weights.proxy.app
import s4weights.proxy.entitlement.registration  # noqa: F401
from s4weights.cli import main
from s4weights.proxy import instance_metadata
from s4weights.proxy.entitlement import identity, region


def serve(order: dict[str, Any]) -> int:
    """In the new process."""
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.environ.clear()
    os.environ.update(order["variables"])
    addresses = order["addresses"]
    instance_metadata.INSTANCE_ADDRESS = region.TASK_ADDRESS = addresses["metadata"]
    region.POD_TOKEN = Path(addresses["pod_token"])
    identity.ASSET_TAG = Path(addresses["asset_tag"])
    return main(["serve", *order["arguments"]])


def exit_code(process: int) -> int | None:
    done, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


if __name__ == "__main__":
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, int):
            answer = exit_code(order)
        else:
            answer = os.fork()
            if answer == 0:
                code = 1
                try:
                    code = serve(order)
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
        print(json.dumps(answer), flush=True)
