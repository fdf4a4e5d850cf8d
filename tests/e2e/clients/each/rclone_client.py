"""The rclone command, and its own ways to check what it did."""

import hashlib
import json
import os
import sys
from pathlib import Path

from commands import run

PROGRAM = Path(sys.executable).parent / "rclone"
REMOTE = f"bucket:{os.environ['BUCKET']}"
PARTS = ("--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M")

os.environ |= {
    "RCLONE_CONFIG": "",
    "RCLONE_CONFIG_BUCKET_TYPE": "s3",
    "RCLONE_CONFIG_BUCKET_PROVIDER": "AWS",
    "RCLONE_CONFIG_BUCKET_ENV_AUTH": "true",
    "RCLONE_CONFIG_BUCKET_ENDPOINT": os.environ["AWS_ENDPOINT_URL"],
    "RCLONE_CONFIG_BUCKET_REGION": os.environ["AWS_DEFAULT_REGION"],
    "RCLONE_CONFIG_BUCKET_FORCE_PATH_STYLE": "true",
    # Both for http alone; docs/clients.md says why.
    "RCLONE_CONFIG_BUCKET_USE_UNSIGNED_PAYLOAD": "true",
    "RCLONE_CONFIG_BUCKET_USE_DATA_INTEGRITY_PROTECTIONS": "false",
}


def rclone(*arguments, data=False):
    return run(PROGRAM, "--retries", "1", *arguments, data=data)


class Client:
    def version(self):
        return rclone("version").split()[1].removeprefix("v")

    def put(self, path, key):
        rclone("copyto", path, f"{REMOTE}/{key}")

    def multipart(self, path, key):
        rclone("copyto", *PARTS, path, f"{REMOTE}/{key}")

    def get(self, key, path):
        rclone("copyto", f"{REMOTE}/{key}", path)

    def get_range(self, key, start, end, path):
        piece = rclone("cat", "--offset", start, "--count", end - start, f"{REMOTE}/{key}", data=True)
        Path(path).write_bytes(piece)

    def list(self, prefix):
        rows = json.loads(rclone("lsjson", "--recursive", "--files-only", f"{REMOTE}/{prefix}"))
        return [[f"{prefix}{row['Path']}", row["Size"]] for row in rows]

    def copy(self, source, target):
        rclone("copyto", f"{REMOTE}/{source}", f"{REMOTE}/{target}")

    def delete(self, key):
        rclone("deletefile", f"{REMOTE}/{key}")

    def sync(self, folder, prefix):
        rclone("sync", *PARTS, folder, f"{REMOTE}/{prefix}")

    def check(self, path, prefix):
        rclone("copy", path, f"{REMOTE}/{prefix}/whole")
        rclone("copy", *PARTS, path, f"{REMOTE}/{prefix}/parts")
        for way in ("whole", "parts"):
            rclone("check", "--one-way", "--include", Path(path).name, Path(path).parent, f"{REMOTE}/{prefix}/{way}")

    def check_download(self, path, prefix):
        rclone("copy", *PARTS, path, f"{REMOTE}/{prefix}")
        name, folder = Path(path).name, Path(path).parent
        rclone("check", "--download", "--one-way", "--include", name, folder, f"{REMOTE}/{prefix}")

    def sync_by_checksum(self, path, prefix):
        log = Path(f"{Path(path).stem}.log")
        for _ in range(2):
            command = ("sync", "--checksum", "--include", Path(path).name, Path(path).parent, f"{REMOTE}/{prefix}")
            rclone("-v", "--stats", "0", "--log-file", log, *command)
        assert log.read_text().count("Copied (new)") == 1

    def hashsum(self, path, prefix):
        rclone("copyto", path, f"{REMOTE}/{prefix}/whole")
        rclone("copyto", *PARTS, path, f"{REMOTE}/{prefix}/parts")
        lines = rclone("hashsum", "MD5", f"{REMOTE}/{prefix}").splitlines()
        assert [line.split()[0] for line in lines] == [hashlib.md5(Path(path).read_bytes()).hexdigest()] * 2
