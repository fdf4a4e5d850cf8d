"""pyarrow's S3FileSystem: the AWS SDK for C++."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from pyarrow.fs import FileSelector, FileType, S3FileSystem

BUCKET = os.environ["BUCKET"]
WHERE = {
    "region": os.environ["AWS_DEFAULT_REGION"],
    "scheme": "http",
    "endpoint_override": os.environ["AWS_ENDPOINT_URL"].removeprefix("http://"),
}


class Client:
    def __init__(self):
        self.fs = S3FileSystem(**WHERE)
        # Only so does a short file go by PutObject.
        self.delayed = S3FileSystem(allow_delayed_open=True, **WHERE)

    def version(self):
        return pa.__version__

    def put(self, path, key):
        with self.delayed.open_output_stream(f"{BUCKET}/{key}") as stream:
            stream.write(Path(path).read_bytes())

    def multipart(self, path, key):
        with self.fs.open_output_stream(f"{BUCKET}/{key}") as stream, Path(path).open("rb") as file:
            while piece := file.read(1 << 20):
                stream.write(piece)

    def get(self, key, path):
        with self.fs.open_input_stream(f"{BUCKET}/{key}") as stream:
            Path(path).write_bytes(stream.read())

    def get_range(self, key, start, end, path):
        with self.fs.open_input_file(f"{BUCKET}/{key}") as file:
            Path(path).write_bytes(file.read_at(end - start, start))

    def list(self, prefix):
        found = self.fs.get_file_info(FileSelector(f"{BUCKET}/{prefix}", recursive=True))
        return [[info.path.removeprefix(f"{BUCKET}/"), info.size] for info in found if info.type is FileType.File]

    def copy(self, source, target):
        self.fs.copy_file(f"{BUCKET}/{source}", f"{BUCKET}/{target}")

    def delete(self, key):
        self.fs.delete_file(f"{BUCKET}/{key}")

    def move(self, path, prefix):
        self.put(path, f"{prefix}/old")
        self.fs.move(f"{BUCKET}/{prefix}/old", f"{BUCKET}/{prefix}/new")
        names = [info.path for info in self.fs.get_file_info(FileSelector(f"{BUCKET}/{prefix}"))]
        assert names == [f"{BUCKET}/{prefix}/new"]

    def parquet(self, path, prefix):
        table = pa.table({"bytes": np.frombuffer(Path(path).read_bytes()[:4_000_000], "u1")})
        parquet.write_table(table, f"{BUCKET}/{prefix}/table.parquet", filesystem=self.fs)
        assert parquet.read_table(f"{BUCKET}/{prefix}/table.parquet", filesystem=self.fs).equals(table)
