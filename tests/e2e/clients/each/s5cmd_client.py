"""The s5cmd command."""

import json
import os
import sys
from pathlib import Path

from commands import run

BUCKET = os.environ["BUCKET"]
PROGRAM = Path(sys.executable).parent / "s5cmd"
PARTS = ("--part-size", "5")


def s5cmd(*arguments, data=False):
    return run(PROGRAM, "--endpoint-url", os.environ["AWS_ENDPOINT_URL"], *arguments, data=data)


class Client:
    def version(self):
        return run(PROGRAM, "version").split("-")[0].strip().removeprefix("v")

    def put(self, path, key):
        s5cmd("cp", path, f"s3://{BUCKET}/{key}")

    def multipart(self, path, key):
        s5cmd("cp", *PARTS, path, f"s3://{BUCKET}/{key}")

    def get(self, key, path):
        s5cmd("cp", *PARTS, f"s3://{BUCKET}/{key}", path)

    def list(self, prefix):
        lines = s5cmd("--json", "ls", f"s3://{BUCKET}/{prefix}*").splitlines()
        rows = [json.loads(line) for line in lines]
        return [[row["key"].removeprefix(f"s3://{BUCKET}/"), row["size"]] for row in rows]

    def copy(self, source, target):
        s5cmd("cp", f"s3://{BUCKET}/{source}", f"s3://{BUCKET}/{target}")

    def delete(self, key):
        s5cmd("rm", f"s3://{BUCKET}/{key}")

    def sync(self, folder, prefix):
        s5cmd("sync", f"{folder}/", f"s3://{BUCKET}/{prefix}/")

    def cat(self, path, prefix):
        s5cmd("cp", path, f"s3://{BUCKET}/{prefix}/cat")
        assert s5cmd("cat", f"s3://{BUCKET}/{prefix}/cat", data=True) == Path(path).read_bytes()

    def disk_usage(self, path, prefix):
        s5cmd("cp", path, f"s3://{BUCKET}/{prefix}/du")
        usage = json.loads(s5cmd("--json", "du", f"s3://{BUCKET}/{prefix}/*"))
        assert (usage["count"], usage["size"]) == (1, Path(path).stat().st_size)
