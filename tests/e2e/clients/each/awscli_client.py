"""The aws command; its driver is called as the program does, without a start of Python for each call."""

import contextlib
import io
import json
import os

import awscli
from awscli.clidriver import create_clidriver

BUCKET = os.environ["BUCKET"]


def aws(*arguments):
    said = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with contextlib.redirect_stdout(said):
        status = create_clidriver().main([str(argument) for argument in arguments])
    text = said.buffer.getvalue().decode()
    assert status == 0, f"{arguments}: {status}\n{text}"
    return text


def s3(*arguments):
    return aws("s3", *arguments)


def api(*arguments):
    return json.loads(aws("s3api", *arguments, "--bucket", BUCKET) or "{}")


class Client:
    def version(self):
        return awscli.__version__

    def put(self, path, key):
        api("put-object", "--key", key, "--body", path)

    def multipart(self, path, key):
        s3("cp", path, f"s3://{BUCKET}/{key}", "--no-progress")

    def get(self, key, path):
        s3("cp", f"s3://{BUCKET}/{key}", path, "--no-progress")

    def get_range(self, key, start, end, path):
        api("get-object", "--key", key, "--range", f"bytes={start}-{end - 1}", path)

    def list(self, prefix):
        lines = s3("ls", "--recursive", f"s3://{BUCKET}/{prefix}").splitlines()
        return [[line.split(maxsplit=3)[3], int(line.split()[2])] for line in lines]

    def copy(self, source, target):
        s3("cp", f"s3://{BUCKET}/{source}", f"s3://{BUCKET}/{target}", "--no-progress")

    def delete(self, key):
        s3("rm", f"s3://{BUCKET}/{key}")

    def sync(self, folder, prefix):
        s3("sync", folder, f"s3://{BUCKET}/{prefix}", "--no-progress")

    def move(self, path, prefix):
        s3("cp", path, f"s3://{BUCKET}/{prefix}/old", "--no-progress")
        s3("mv", f"s3://{BUCKET}/{prefix}/old", f"s3://{BUCKET}/{prefix}/new", "--no-progress")
        assert [row["Key"] for row in api("list-objects-v2", "--prefix", prefix)["Contents"]] == [f"{prefix}/new"]
