"""MinIO's client for Python."""

import os
from pathlib import Path

import minio
from minio.commonconfig import ComposeSource, CopySource

BUCKET = os.environ["BUCKET"]
PART = 5 << 20


class Client:
    def __init__(self):
        self.s3 = minio.Minio(
            os.environ["AWS_ENDPOINT_URL"].removeprefix("http://"),
            os.environ["AWS_ACCESS_KEY_ID"],
            os.environ["AWS_SECRET_ACCESS_KEY"],
            region=os.environ["AWS_DEFAULT_REGION"],
            secure=False,
        )

    def version(self):
        return minio.__version__

    def put(self, path, key):
        self.s3.fput_object(BUCKET, key, path)

    def multipart(self, path, key):
        self.s3.fput_object(BUCKET, key, path, part_size=PART)

    def get(self, key, path):
        self.s3.fget_object(BUCKET, key, path)

    def get_range(self, key, start, end, path):
        answer = self.s3.get_object(BUCKET, key, offset=start, length=end - start)
        Path(path).write_bytes(answer.read())
        answer.close()

    def list(self, prefix):
        return [[row.object_name, row.size] for row in self.s3.list_objects(BUCKET, prefix, recursive=True)]

    def copy(self, source, target):
        self.s3.copy_object(BUCKET, target, CopySource(BUCKET, source))

    def delete(self, key):
        self.s3.remove_object(BUCKET, key)

    def compose(self, path, prefix):
        data = Path(path).read_bytes()
        self.s3.fput_object(BUCKET, f"{prefix}/source", path)
        pieces = [ComposeSource(BUCKET, f"{prefix}/source", offset=at, length=PART) for at in (0, len(data) - PART)]
        self.s3.compose_object(BUCKET, f"{prefix}/composed", pieces)
        answer = self.s3.get_object(BUCKET, f"{prefix}/composed")
        assert answer.read() == data[:PART] + data[-PART:]
        answer.close()
