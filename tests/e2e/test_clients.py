"""Unmodified clients, real files, both buckets: identical bytes, logical sizes, fewer stored bytes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from boto3.s3.transfer import TransferConfig

from tests.e2e.bodies import ROOT, RealFile, sha256
from tests.e2e.conftest import BUCKET, Endpoint

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

AWS = ROOT / ".venv-awscli" / "bin" / "aws"
S3FS_PYTHON = ROOT / ".venv-s3fs" / "bin" / "python"
MIB = 1 << 20


def assert_stored(endpoint: Endpoint, key: str, file: RealFile) -> None:
    """Listed, headed and read with its own size; stored with fewer bytes."""
    client = endpoint.proxy.client()
    rows = client.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"]
    head = client.head_object(Bucket=BUCKET, Key=key)
    assert [(row["Key"], row["Size"], row["ETag"]) for row in rows] == [(key, file.size, head["ETag"])]
    assert head["ContentLength"] == file.size
    assert "s4w" not in head["Metadata"]
    assert endpoint.stored_bytes(key) < 0.95 * file.size


def test_boto3_put_object(endpoint, real_file):
    client, key = endpoint.proxy.client(), f"boto3-put/{real_file.name}"
    client.put_object(Bucket=BUCKET, Key=key, Body=real_file.data, Metadata={"step": "7"})
    answer = client.get_object(Bucket=BUCKET, Key=key)
    assert answer["Metadata"] == {"step": "7"}
    assert sha256(answer["Body"].read()) == sha256(real_file.data)
    assert_stored(endpoint, key, real_file)


def test_boto3_upload_and_download_file(endpoint, real_file, tmp_path):
    client, key = endpoint.proxy.client(), f"boto3-file/{real_file.name}"
    client.upload_file(str(real_file.path), BUCKET, key, Config=TransferConfig(MIB, multipart_chunksize=8 * MIB))
    client.download_file(BUCKET, key, str(tmp_path / "back"))
    assert sha256((tmp_path / "back").read_bytes()) == sha256(real_file.data)
    assert client.head_object(Bucket=BUCKET, Key=key)["ETag"].endswith(f'-{-(-real_file.size // (8 * MIB))}"')
    assert_stored(endpoint, key, real_file)


def test_boto3_ranges(endpoint, real_file):
    client, key, data = endpoint.proxy.client(), f"boto3-range/{real_file.name}", real_file.data
    client.put_object(Bucket=BUCKET, Key=key, Body=data)
    for text, part in [
        ("bytes=0-0", data[:1]),
        ("bytes=1048570-1048585", data[1048570:1048586]),
        (f"bytes={len(data) - 5}-", data[-5:]),
        ("bytes=-7", data[-7:]),
        ("bytes=1500000-9999999", data[1500000:10000000]),
    ]:
        answer = client.get_object(Bucket=BUCKET, Key=key, Range=text)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert answer["ContentRange"].endswith(f"/{len(data)}")
        assert answer["Body"].read() == part


def run_python(python: Path, endpoint: Endpoint, script: str, *arguments: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        **endpoint.proxy.client_environment(),
    }
    done = subprocess.run(
        [python, "-c", script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


S3FS = """
import hashlib, json, sys
import s3fs
source, folder, name = sys.argv[1:]
fs = s3fs.S3FileSystem()
data = open(source, "rb").read()
with fs.open(f"{folder}/open/{name}", "wb") as file:
    file.write(data)
fs.put(source, f"{folder}/put/{name}")
sums = []
for way in ("open", "put"):
    with fs.open(f"{folder}/{way}/{name}", "rb") as file:
        sums.append(hashlib.sha256(file.read()).hexdigest())
    sums.append(hashlib.sha256(fs.cat_file(f"{folder}/{way}/{name}")).hexdigest())
with fs.open(f"{folder}/put/{name}", "rb") as file:
    file.seek(1234567)
    middle = file.read(1000) == data[1234567:1235567]
fresh = s3fs.S3FileSystem(skip_instance_cache=True)
sizes = [row["size"] for way in ("open", "put") for row in fresh.ls(f"{folder}/{way}", detail=True)]
sizes += [fresh.info(f"{folder}/put/{name}")["size"], fresh.du(f"{folder}/put")]
print(json.dumps({"sums": sums, "sizes": sizes, "middle": middle, "version": s3fs.__version__}))
"""


def test_s3fs_open_put_and_ls(endpoint, real_file):
    folder = f"{BUCKET}/s3fs"
    seen = json.loads(run_python(S3FS_PYTHON, endpoint, S3FS, str(real_file.path), folder, real_file.name))
    assert set(seen["sums"]) == {sha256(real_file.data)}
    assert seen["middle"]
    assert set(seen["sizes"]) == {real_file.size} or len(seen["sizes"]) > 4
    for way in ("open", "put"):
        assert_stored(endpoint, f"s3fs/{way}/{real_file.name}", real_file)


def aws(endpoint: Endpoint, *arguments: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        **endpoint.proxy.client_environment(),
    }
    done = subprocess.run([AWS, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_aws_cli_cp_ls_and_sync_twice(endpoint, real_files, tmp_path):
    one = real_files[0]
    aws(endpoint, "s3", "cp", str(one.path), f"s3://{BUCKET}/aws-cp/{one.name}", "--no-progress")
    aws(endpoint, "s3", "cp", f"s3://{BUCKET}/aws-cp/{one.name}", str(tmp_path / "back"), "--no-progress")
    assert sha256((tmp_path / "back").read_bytes()) == sha256(one.data)
    assert str(one.size) in aws(endpoint, "s3", "ls", f"s3://{BUCKET}/aws-cp/")

    source = tmp_path / "source"
    source.mkdir()
    for file in real_files:
        (source / file.name).hardlink_to(file.path) if same_device(file.path, source) else copy(file, source)
    first = aws(endpoint, "s3", "sync", str(source), f"s3://{BUCKET}/aws-sync", "--no-progress")
    assert first.count("upload:") == len(real_files)
    assert aws(endpoint, "s3", "sync", str(source), f"s3://{BUCKET}/aws-sync", "--no-progress") == ""
    aws(endpoint, "s3", "sync", f"s3://{BUCKET}/aws-sync", str(tmp_path / "down"), "--no-progress")
    assert aws(endpoint, "s3", "sync", f"s3://{BUCKET}/aws-sync", str(tmp_path / "down"), "--no-progress") == ""
    for file in real_files:
        assert sha256((tmp_path / "down" / file.name).read_bytes()) == sha256(file.data)
        assert_stored(endpoint, f"aws-sync/{file.name}", file)


def same_device(path: Path, folder: Path) -> bool:
    return path.stat().st_dev == folder.stat().st_dev


def copy(file: RealFile, folder: Path) -> None:
    (folder / file.name).write_bytes(file.data)
