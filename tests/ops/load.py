"""A client under load, in a process of its own: writes until the endpoint goes away.

usage: python load.py ENDPOINT CLIENTS      prints a line for each acknowledged object: key and SHA-256
"""

from __future__ import annotations

import hashlib
import sys
import threading

import boto3
import numpy as np
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.proxy.objects.conftest import safetensors

MIB = 1 << 20


def write_until_refused(endpoint: str, number: int) -> None:
    config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    client = boto3.client(
        *("s3",),
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=config,
    )
    for step in range(10_000):
        body = safetensors(np.random.default_rng(step * 100 + number).normal(0, 0.02, 6 * MIB))
        key = f"client-{number}/step-{step}.safetensors"
        try:
            client.put_object(Bucket="training", Key=key, Body=body)
        except (BotoCoreError, ClientError):
            return
        print(key, hashlib.sha256(body).hexdigest(), flush=True)


if __name__ == "__main__":
    clients = [
        threading.Thread(target=write_until_refused, args=(sys.argv[1], number)) for number in range(int(sys.argv[2]))
    ]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
