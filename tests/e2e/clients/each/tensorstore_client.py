"""TensorStore: its key-value store, and an array over it."""

import importlib.metadata
import os
from pathlib import Path

import numpy as np
import tensorstore as ts

STORE = {
    "driver": "s3",
    "bucket": os.environ["BUCKET"],
    "endpoint": os.environ["AWS_ENDPOINT_URL"],
    "aws_region": os.environ["AWS_DEFAULT_REGION"],
    "aws_credentials": {"type": "environment"},
}


class Client:
    def __init__(self):
        self.store = ts.KvStore.open(STORE).result()

    def version(self):
        return importlib.metadata.version("tensorstore")

    def put(self, path, key):
        self.store.write(key, Path(path).read_bytes()).result()

    def get(self, key, path):
        Path(path).write_bytes(self.store.read(key).result().value)

    def list(self, prefix):
        below = ts.KvStore.KeyRange(prefix, prefix + "\x7f")
        names = [name.decode() for name in self.store.list(below).result()]
        return [[name, len(self.store.read(name).result().value)] for name in names]

    def delete(self, key):
        self.store.write(key, None).result()

    def zarr(self, path, prefix):
        # Shards: the second read takes ranges out of one object.
        data = np.frombuffer(Path(path).read_bytes()[:8_000_000], "<f4").reshape(2000, 1000)
        spec = {"driver": "zarr3", "kvstore": {**STORE, "path": f"{prefix}/array/"}}
        chunks = ts.ChunkLayout(read_chunk_shape=(1000, 500), write_chunk_shape=(2000, 1000))
        array = ts.open(spec, create=True, dtype=ts.float32, shape=data.shape, chunk_layout=chunks).result()
        array.write(data).result()
        back = ts.open(spec, recheck_cached=True).result()
        assert back.read().result().tobytes() == data.tobytes()
        assert back[1200:1300, 600:700].read().result().tobytes() == data[1200:1300, 600:700].tobytes()
