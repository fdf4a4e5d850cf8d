"""smart_open, over boto3."""

import os
from pathlib import Path

import smart_open
from smart_open.s3 import iter_bucket

BUCKET = os.environ["BUCKET"]


class Client:
    def version(self):
        return smart_open.__version__

    def put(self, path, key):
        self.write(path, key, {"multipart_upload": False})

    def multipart(self, path, key):
        self.write(path, key, {"min_part_size": 5 << 20})

    def write(self, path, key, parameters):
        # Its own decompression by suffix is not what is asked about.
        with smart_open.open(f"s3://{BUCKET}/{key}", "wb", compression="disable", transport_params=parameters) as file:
            file.write(Path(path).read_bytes())

    def get(self, key, path):
        with smart_open.open(f"s3://{BUCKET}/{key}", "rb", compression="disable") as file:
            Path(path).write_bytes(file.read())

    def get_range(self, key, start, end, path):
        parameters = {"defer_seek": True, "range_chunk_size": 1 << 20}
        with smart_open.open(f"s3://{BUCKET}/{key}", "rb", compression="disable", transport_params=parameters) as file:
            file.seek(start)
            Path(path).write_bytes(file.read(end - start))

    def list(self, prefix):
        return [[key, len(content)] for key, content in iter_bucket(BUCKET, prefix, workers=2)]
