"""aiobotocore in its newest version."""

import asyncio
import os
from pathlib import Path

import aiobotocore
from aiobotocore.session import get_session

BUCKET = os.environ["BUCKET"]
PART = 5 << 20


class Client:
    def __init__(self):
        self.loop = asyncio.Runner()
        self.s3 = self.loop.run(get_session().create_client("s3").__aenter__())

    def version(self):
        return aiobotocore.__version__

    def put(self, path, key):
        self.loop.run(self.s3.put_object(Bucket=BUCKET, Key=key, Body=Path(path).read_bytes()))

    def multipart(self, path, key):
        self.loop.run(self.put_parts(Path(path).read_bytes(), key))

    async def put_parts(self, data, key):
        name = {"Bucket": BUCKET, "Key": key}
        name["UploadId"] = (await self.s3.create_multipart_upload(**name))["UploadId"]
        pieces = [data[at : at + PART] for at in range(0, len(data), PART)]
        answers = await asyncio.gather(
            *(self.s3.upload_part(**name, PartNumber=number, Body=piece) for number, piece in enumerate(pieces, 1))
        )
        parts = [{"PartNumber": number, "ETag": answer["ETag"]} for number, answer in enumerate(answers, 1)]
        await self.s3.complete_multipart_upload(**name, MultipartUpload={"Parts": parts})

    def get(self, key, path):
        Path(path).write_bytes(self.loop.run(self.read(Key=key)))

    def get_range(self, key, start, end, path):
        Path(path).write_bytes(self.loop.run(self.read(Key=key, Range=f"bytes={start}-{end - 1}")))

    async def read(self, **arguments):
        answer = await self.s3.get_object(Bucket=BUCKET, **arguments)
        async with answer["Body"] as stream:
            return await stream.read()

    def list(self, prefix):
        rows = self.loop.run(self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix))["Contents"]
        return [[row["Key"], row["Size"]] for row in rows]

    def copy(self, source, target):
        self.loop.run(self.s3.copy_object(Bucket=BUCKET, Key=target, CopySource={"Bucket": BUCKET, "Key": source}))

    def delete(self, key):
        self.loop.run(self.s3.delete_object(Bucket=BUCKET, Key=key))
