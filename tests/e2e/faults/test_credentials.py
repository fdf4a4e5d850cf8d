"""The proxy's own credentials change in the middle of an upload, as those of an instance role do."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.servers import ACCESS_KEY, NEXT_ACCESS_KEY, NEXT_SECRET_KEY, SECRET_KEY

from .conftest import BUCKET, MIB, broken_endpoint
from .operations import body
from .script import Rule, refused

pytestmark = pytest.mark.e2e
FIRST = (ACCESS_KEY, SECRET_KEY)
NEXT = (NEXT_ACCESS_KEY, NEXT_SECRET_KEY)


class Role(http.server.ThreadingHTTPServer):
    """Gives credentials as a container's agent does; they always end within the minute, so they are asked for again."""

    given = FIRST

    class Handler(http.server.BaseHTTPRequestHandler):
        server: Role

        def do_GET(self) -> None:
            access, secret = self.server.given
            ends = (datetime.now(UTC) + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
            fields = {"AccessKeyId": access, "SecretAccessKey": secret, "Token": None, "Expiration": ends}
            document = json.dumps(fields).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *arguments: object) -> None:
            """Not into the tests' output."""


@pytest.fixture
def role() -> Iterator[Role]:
    with Role(("127.0.0.1", 0), Role.Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("content", ["large", "noise"])
def test_an_upload_goes_on_with_the_next_credentials(seaweedfs, tmp_path, role, content):
    url = f"http://127.0.0.1:{role.server_address[1]}/role"
    environment = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    with broken_endpoint(seaweedfs, tmp_path, environment) as broken:
        client = broken.proxy.client(attempts=4)
        key, data = f"role-{content}", body(content)
        upload = {"Bucket": BUCKET, "Key": key}
        upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
        pieces = [data[: 6 * MIB], data[6 * MIB :]]
        etags = [client.upload_part(**upload, PartNumber=1, Body=pieces[0])["ETag"]]
        role.given = NEXT
        expired = broken.fails(Rule(refused(400, "ExpiredToken"), times=1_000, holds=f"Credential={ACCESS_KEY}/"))
        next_ones = broken.fails(Rule(refused(500, "Seen"), times=0, holds=f"Credential={NEXT_ACCESS_KEY}/"))
        etags.append(client.upload_part(**upload, PartNumber=2, Body=pieces[1])["ETag"])
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
        client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        assert broken.body(key) == data
        assert next_ones.seen
        assert expired.hits <= 2
        broken.assert_nothing_open(key)
