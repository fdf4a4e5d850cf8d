"""Amazon S3 Connector for PyTorch: its client, its checkpoint reader and writer, its storage for torch DCP."""

import os
import shutil
from pathlib import Path
from urllib.parse import quote

import s3torchconnector
import torch
import torch.distributed.checkpoint as dcp
from s3torchconnector import S3Checkpoint, S3ClientConfig, S3ReaderConstructor
from s3torchconnector._s3client import S3Client
from s3torchconnector.dcp import S3StorageReader, S3StorageWriter

BUCKET = os.environ["BUCKET"]
REGION = os.environ["AWS_DEFAULT_REGION"]
ENDPOINT = os.environ["AWS_ENDPOINT_URL"]
CONFIG = S3ClientConfig(part_size=5 << 20, force_path_style=True)


class Client:
    def __init__(self):
        self.s3 = S3Client(REGION, endpoint=ENDPOINT, s3client_config=CONFIG)

    def version(self):
        return s3torchconnector.__version__

    def put(self, path, key):
        with self.s3.put_object(BUCKET, key) as writer, Path(path).open("rb") as file:
            shutil.copyfileobj(file, writer)

    multipart = put

    def get(self, key, path):
        with self.s3.get_object(BUCKET, key) as reader:
            Path(path).write_bytes(reader.read())

    def get_range(self, key, start, end, path):
        seen = set()
        for constructor in (S3ReaderConstructor.sequential(), S3ReaderConstructor.range_based()):
            with self.s3.get_object(BUCKET, key, reader_constructor=constructor) as reader:
                reader.seek(start)
                seen.add(reader.read(end - start))
        [piece] = seen
        Path(path).write_bytes(piece)

    def list(self, prefix):
        return [[info.key, info.size] for page in self.s3.list_objects(BUCKET, prefix) for info in page.object_info]

    def copy(self, source, target):
        # As its own S3FileSystem.rename does: the client sends the source as it is given.
        self.s3.copy_object(BUCKET, quote(source), BUCKET, target)

    def delete(self, key):
        self.s3.delete_object(BUCKET, key)

    def checkpoint(self, path, prefix):
        state = torch.load(path, weights_only=True)
        store = S3Checkpoint(REGION, endpoint=ENDPOINT, s3client_config=CONFIG)
        with store.writer(f"s3://{BUCKET}/{prefix}/checkpoint.pt") as writer:
            torch.save(state, writer)
        with store.reader(f"s3://{BUCKET}/{prefix}/checkpoint.pt") as reader:
            assert_same(tensors(torch.load(reader, weights_only=True)), tensors(state))

    def distributed_checkpoint(self, path, prefix):
        state = tensors(torch.load(path, weights_only=True))
        uri = f"s3://{BUCKET}/{prefix}/dcp"
        writer = S3StorageWriter(REGION, uri, s3client_config=CONFIG)
        dcp.save(state, storage_writer=writer, no_dist=True)
        for constructor in (S3ReaderConstructor.dcp_optimized(), S3ReaderConstructor.sequential()):
            back = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
            reader = S3StorageReader(REGION, uri, s3client_config=CONFIG, reader_constructor=constructor)
            dcp.load(back, storage_reader=reader, no_dist=True)
            assert_same(back, state)


def tensors(value, name="state"):
    """Name to tensor of all tensors in nested dicts and lists."""
    if isinstance(value, torch.Tensor):
        return {name: value}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    return {key: tensor for inner, one in items for key, tensor in tensors(one, f"{name}.{inner}").items()}


def assert_same(found, expected):
    assert expected
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
