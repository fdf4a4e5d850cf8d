"""obstore: Rust's object_store."""

import importlib.metadata
import os
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

PART = 5 << 20


class Client:
    def __init__(self):
        self.store = S3Store(
            os.environ["BUCKET"],
            endpoint=os.environ["AWS_ENDPOINT_URL"],
            region=os.environ["AWS_DEFAULT_REGION"],
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

    def version(self):
        return importlib.metadata.version("obstore")

    def put(self, path, key):
        obstore.put(self.store, key, Path(path), use_multipart=False)

    def multipart(self, path, key):
        obstore.put(self.store, key, Path(path), use_multipart=True, chunk_size=PART)

    def get(self, key, path):
        Path(path).write_bytes(obstore.get(self.store, key).bytes())

    def get_range(self, key, start, end, path):
        piece = bytes(obstore.get_range(self.store, key, start=start, end=end))
        assert [bytes(one) for one in obstore.get_ranges(self.store, key, starts=[start], ends=[end])] == [piece]
        Path(path).write_bytes(piece)

    def list(self, prefix):
        return [[row["path"], row["size"]] for page in obstore.list(self.store, prefix) for row in page]

    def copy(self, source, target):
        obstore.copy(self.store, source, target)

    def delete(self, key):
        obstore.delete(self.store, key)

    def put_if_absent(self, path, prefix):
        obstore.put(self.store, f"{prefix}/once", Path(path), mode="create", use_multipart=False)
        try:
            obstore.put(self.store, f"{prefix}/once", b"other", mode="create")
        except AlreadyExistsError:
            assert bytes(obstore.get(self.store, f"{prefix}/once").bytes()) == Path(path).read_bytes()
        else:
            raise AssertionError("what was there was overwritten")
