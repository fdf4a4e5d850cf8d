"""Which clients there are, in which environment each one lives, and what each one does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
ROOT: Final = FOLDER.parents[2]
# Columns of the table, in the order in which they run.
OPERATIONS: Final = ("PUT", "multipart", "GET", "range", "list", "copy", "delete", "sync twice")

_AWSCLI: Final = ROOT / ".venv-awscli" / "bin" / "python"
_S3FS: Final = ROOT / ".venv-s3fs" / "bin" / "python"
_CLIENTS: Final = ROOT / ".venv-clients" / "bin" / "python"
_NODE: Final = ROOT / ".venv-clients" / "bin" / "node"
_NO_SYNC: Final = frozenset({"sync twice"})


@dataclass(frozen=True)
class Program:
    """One client.

    module: a file in `each/`; interpreter: what runs it.
    lacks: operations that the client itself does not have.
    own: what else it does, by name; each a method of the module that raises where it fails.
    own_bodies: the kinds of bodies that `own` is tried with.
    remarks: what a user must set, or should know.
    """

    name: str
    module: str
    interpreter: Path
    lacks: frozenset[str] = frozenset()
    own: Mapping[str, str] = field(default_factory=dict)
    own_bodies: tuple[str, ...] = ("checkpoint",)
    remarks: str = ""


PROGRAMS: Final = (
    Program(
        "boto3",
        "boto3_client.py",
        _CLIENTS,
        _NO_SYNC,
        {
            "copy in parts": "copy_in_parts",
            "presigned GET and PUT": "presigned",
            "DeleteObjects": "delete_many",
            "paginators": "paginate",
        },
        remarks="Presigned URLs need `Config(signature_version='s3v4')`: in us-east-1 boto3 still signs them with version 2.",
    ),
    Program(
        "boto3 with crt",
        "boto3_crt_client.py",
        _CLIENTS,
        _NO_SYNC,
        remarks="boto3 makes its CRT client for https alone; the test makes the same one for http. "
        "Where the CRT does not do it (ranges, copies), boto3 itself does.",
    ),
    Program("aiobotocore", "aiobotocore_client.py", _S3FS, _NO_SYNC),
    Program(
        "s3fs",
        "s3fs_client.py",
        _S3FS,
        own={"rm, recursive": "remove_folder", "append": "append"},
        remarks="Sync is fsspec's `rsync`.",
    ),
    Program("awscli", "awscli_client.py", _AWSCLI, own={"mv": "move"}),
    Program(
        "s5cmd",
        "s5cmd_client.py",
        _CLIENTS,
        frozenset({"range"}),
        {"cat": "cat", "du": "disk_usage"},
        remarks="Downloads are ranges in parallel; no command asks for one.",
    ),
    Program(
        "rclone",
        "rclone_client.py",
        _CLIENTS,
        own={
            "check": "check",
            "check --download": "check_download",
            "sync --checksum twice": "sync_by_checksum",
            "hashsum": "hashsum",
        },
        own_bodies=("checkpoint", "noise"),
        remarks="Provider `AWS`, with `force_path_style`. It streams a short file only over https; over http set "
        "`use_unsigned_payload = true` and `use_data_integrity_protections = false`, as for any server.",
    ),
    Program(
        "s3torchconnector",
        "s3torchconnector_client.py",
        Path(sys.executable),
        frozenset({"PUT", "sync twice"}),
        {"S3Checkpoint": "checkpoint", "S3StorageWriter and S3StorageReader": "distributed_checkpoint"},
        remarks="It writes in parts always. `S3ClientConfig(force_path_style=True)`; a copy's source must be given quoted, "
        "straight too.",
    ),
    Program("minio-py", "minio_client.py", _CLIENTS, _NO_SYNC, {"compose_object": "compose"}),
    Program(
        "obstore",
        "obstore_client.py",
        _CLIENTS,
        _NO_SYNC,
        {"conditional put": "put_if_absent"},
        remarks='`client_options={"allow_http": True}` over http.',
    ),
    Program(
        "pyarrow",
        "pyarrow_client.py",
        _CLIENTS,
        _NO_SYNC,
        {"move": "move", "Parquet": "parquet"},
        remarks="A short file goes by PutObject with `allow_delayed_open=True`, else in one part.",
    ),
    Program(
        "tensorstore",
        "tensorstore_client.py",
        _CLIENTS,
        frozenset({"multipart", "range", "copy", "sync twice"}),
        {"sharded zarr array": "zarr"},
        remarks="Ranges are read by its array drivers, here out of a zarr shard.",
    ),
    Program("smart_open", "smart_open_client.py", _CLIENTS, frozenset({"copy", "delete", "sync twice"})),
    Program(
        "@aws-sdk/client-s3",
        "aws_sdk_client.mjs",
        _NODE,
        _NO_SYNC,
        {"presigned GET": "presigned"},
        remarks="Version 3, on node; parts by `@aws-sdk/lib-storage`. `forcePathStyle: true`.",
    ),
)
