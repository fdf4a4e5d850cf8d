"""boto3 in its newest version."""

import os
import urllib.request
from pathlib import Path

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

BUCKET = os.environ["BUCKET"]
MIB = 1 << 20


class Client:
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB)

    def __init__(self):
        self.s3 = boto3.client("s3")

    def version(self):
        return boto3.__version__

    def put(self, path, key):
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=Path(path).read_bytes())

    def multipart(self, path, key):
        self.s3.upload_file(path, BUCKET, key, Config=self.config)

    def get(self, key, path):
        self.s3.download_file(BUCKET, key, path, Config=self.config)

    def get_range(self, key, start, end, path):
        answer = self.s3.get_object(Bucket=BUCKET, Key=key, Range=f"bytes={start}-{end - 1}")
        Path(path).write_bytes(answer["Body"].read())

    def list(self, prefix):
        rows = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]
        return [[row["Key"], row["Size"]] for row in rows]

    def copy(self, source, target):
        self.s3.copy({"Bucket": BUCKET, "Key": source}, BUCKET, target)

    def delete(self, key):
        self.s3.delete_object(Bucket=BUCKET, Key=key)

    def copy_in_parts(self, path, prefix):
        self.s3.upload_file(path, BUCKET, f"{prefix}/source")
        self.s3.copy({"Bucket": BUCKET, "Key": f"{prefix}/source"}, BUCKET, f"{prefix}/target", Config=self.config)
        assert "-" in self.s3.head_object(Bucket=BUCKET, Key=f"{prefix}/target")["ETag"]
        assert self.s3.get_object(Bucket=BUCKET, Key=f"{prefix}/target")["Body"].read() == Path(path).read_bytes()

    def presigned(self, path, prefix):
        data, names = Path(path).read_bytes(), {"Bucket": BUCKET, "Key": f"{prefix}/presigned"}
        signer = boto3.client("s3", config=Config(signature_version="s3v4"))
        url = signer.generate_presigned_url("put_object", Params=names)
        urllib.request.urlopen(urllib.request.Request(url, data, method="PUT")).close()
        with urllib.request.urlopen(signer.generate_presigned_url("get_object", Params=names)) as answer:
            assert answer.read() == data

    def delete_many(self, path, prefix):
        for name in ("a", "b", "c"):
            self.s3.put_object(Bucket=BUCKET, Key=f"{prefix}/{name}", Body=Path(path).read_bytes()[:100_000])
        named = [{"Key": f"{prefix}/{name}"} for name in ("a", "b", "c", "never")]
        answer = self.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": named})
        assert len(answer["Deleted"]) == 4
        assert self.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/")["KeyCount"] == 0

    def paginate(self, path, prefix):
        names = [f"{prefix}/{number:02}" for number in range(7)]
        for name in names:
            self.s3.put_object(Bucket=BUCKET, Key=name, Body=Path(path).read_bytes()[:100_000])
        for operation in ("list_objects", "list_objects_v2"):
            pages = self.s3.get_paginator(operation).paginate(
                Bucket=BUCKET, Prefix=f"{prefix}/", PaginationConfig={"PageSize": 3}
            )
            pages = [[row["Key"] for row in page["Contents"]] for page in pages]
            assert pages == [names[:3], names[3:6], names[6:]], (operation, pages)
