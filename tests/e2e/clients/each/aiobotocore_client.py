"""aiobotocore in its newest version."""

import asyncio
import os
from pathlib import Path

import aiobotocore
from aiobotocore.session import get_session

BUCKET = os.environ["BUCKET"]
PART = 5 << 20


async def send(operation, **arguments):
    """One call; a body is read before its connection closes."""
    async with get_session().create_client("s3") as s3:
        answer = await getattr(s3, operation)(Bucket=BUCKET, **arguments)
        if operation == "get_object":
            async with answer["Body"] as stream:
                return await stream.read()
        return answer


async def send_parts(data, key):
    async with get_session().create_client("s3") as s3:
        name = {"Bucket": BUCKET, "Key": key}
        name["UploadId"] = (await s3.create_multipart_upload(**name))["UploadId"]
        pieces = [data[at : at + PART] for at in range(0, len(data), PART)]
        answers = await asyncio.gather(
            *(s3.upload_part(**name, PartNumber=number, Body=piece) for number, piece in enumerate(pieces, 1))
        )
        parts = [{"PartNumber": number, "ETag": answer["ETag"]} for number, answer in enumerate(answers, 1)]
        await s3.complete_multipart_upload(**name, MultipartUpload={"Parts": parts})


class Client:
    def version(self):
        return aiobotocore.__version__

    def put(self, path, key):
        asyncio.run(send("put_object", Key=key, Body=Path(path).read_bytes()))

    def multipart(self, path, key):
        asyncio.run(send_parts(Path(path).read_bytes(), key))

    def get(self, key, path):
        Path(path).write_bytes(asyncio.run(send("get_object", Key=key)))

    def get_range(self, key, start, end, path):
        Path(path).write_bytes(asyncio.run(send("get_object", Key=key, Range=f"bytes={start}-{end - 1}")))

    def list(self, prefix):
        rows = asyncio.run(send("list_objects_v2", Prefix=prefix))["Contents"]
        return [[row["Key"], row["Size"]] for row in rows]

    def copy(self, source, target):
        asyncio.run(send("copy_object", Key=target, CopySource={"Bucket": BUCKET, "Key": source}))

    def delete(self, key):
        asyncio.run(send("delete_object", Key=key))
