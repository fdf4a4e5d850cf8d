"""s3fs, and fsspec's rsync over it."""

import os
from pathlib import Path

import fsspec
import s3fs
from fsspec.generic import rsync

BUCKET = os.environ["BUCKET"]
PART = 5 << 20


class Client:
    def __init__(self):
        self.fs = s3fs.S3FileSystem()

    def version(self):
        return f"{s3fs.__version__}"

    def put(self, path, key):
        self.fs.pipe_file(f"{BUCKET}/{key}", Path(path).read_bytes())

    def multipart(self, path, key):
        self.fs.put_file(path, f"{BUCKET}/{key}", chunksize=PART)

    def get(self, key, path):
        self.fs.get_file(f"{BUCKET}/{key}", path)

    def get_range(self, key, start, end, path):
        piece = self.fs.cat_file(f"{BUCKET}/{key}", start=start, end=end)
        with self.fs.open(f"{BUCKET}/{key}") as file:
            file.seek(start)
            assert file.read(end - start) == piece
        Path(path).write_bytes(piece)

    def list(self, prefix):
        rows = self.fs.find(f"{BUCKET}/{prefix}", detail=True)
        return [[name.removeprefix(f"{BUCKET}/"), row["size"]] for name, row in rows.items()]

    def copy(self, source, target):
        self.fs.cp_file(f"{BUCKET}/{source}", f"{BUCKET}/{target}")

    def delete(self, key):
        self.fs.rm_file(f"{BUCKET}/{key}")

    def sync(self, folder, prefix):
        fsspec.filesystem("s3").invalidate_cache()
        rsync(f"file://{folder}", f"s3://{BUCKET}/{prefix}")

    def remove_folder(self, path, prefix):
        for name in ("a", "b/c"):
            self.fs.put_file(path, f"{BUCKET}/{prefix}/{name}")
        self.fs.rm(f"{BUCKET}/{prefix}", recursive=True)
        # Not the folder itself: SeaweedFS shows that of a deleted object for a while.
        assert not any(self.fs.isfile(f"{BUCKET}/{prefix}/{name}") for name in ("a", "b/c"))

    def append(self, path, prefix):
        data, name = Path(path).read_bytes(), f"{BUCKET}/{prefix}/appended"
        with self.fs.open(name, "wb", block_size=PART) as file:
            file.write(data)
        with self.fs.open(name, "ab", block_size=PART) as file:
            file.write(b"and more")
        assert self.fs.cat_file(name) == data + b"and more"
