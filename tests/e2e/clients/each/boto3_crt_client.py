"""boto3 that moves files by the AWS Common Runtime."""

import os

import awscrt
import boto3.crt
from boto3.s3.transfer import TransferConfig, create_transfer_manager
from boto3_client import MIB
from boto3_client import Client as Boto3
from s3transfer import crt

BUCKET = os.environ["BUCKET"]


def allow_http(s3):
    """boto3 makes its one CRT client for TLS alone; this is the same client without."""
    credentials = crt.BotocoreCRTCredentialsWrapper(s3._get_credentials())
    boto3.crt.CRT_S3_CLIENT = boto3.crt.CRTS3Client(
        crt.create_s3_crt_client(s3.meta.region_name, credentials.to_crt_credentials_provider(), use_ssl=False),
        crt.acquire_crt_s3_process_lock("tests"),
        s3.meta.region_name,
        credentials,
    )
    boto3.crt.BOTOCORE_CRT_SERIALIZER = boto3.crt._create_crt_request_serializer(
        boto3.crt.Session(), s3.meta.region_name
    )


class Client(Boto3):
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, preferred_transfer_client="crt")

    def __init__(self):
        super().__init__()
        allow_http(self.s3)
        # Where boto3 cannot use the CRT it falls back to its own transfers and says nothing.
        assert isinstance(create_transfer_manager(self.s3, self.config), crt.CRTTransferManager)

    def version(self):
        return f"{super().version()}, awscrt {awscrt.__version__}"

    def put(self, path, key):
        self.s3.upload_file(path, BUCKET, key, Config=self.config)
