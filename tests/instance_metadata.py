"""An EC2 instance's metadata service, version 2 alone, whose role's keys change as a test likes."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

_TOKEN = "imds-token"
_ROLE = "/latest/meta-data/iam/security-credentials/"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class InstanceMetadata:
    """Serves for the length of a block."""

    def __init__(self) -> None:
        self.asked = 0
        """How often the role's keys were given."""
        self.is_silent = False
        self._keys = {"Code": "Success"}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                self._answer(200, _TOKEN if self.path == "/latest/api/token" else "")

            def do_GET(self) -> None:
                if service.is_silent or self.headers["x-aws-ec2-metadata-token"] != _TOKEN:
                    self._answer(503 if service.is_silent else 401, "")
                elif self.path == _ROLE:
                    self._answer(200, "trainer")
                elif self.path == f"{_ROLE}trainer":
                    service.asked += 1
                    self._answer(200, json.dumps(service._keys))
                else:
                    self._answer(404, "")

            def _answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def give(self, access_key: str, life: timedelta = timedelta(hours=6)) -> None:
        """From now on the role's keys are these; the secret and the token follow from the access key."""
        self._keys = {
            "Code": "Success",
            "AccessKeyId": access_key,
            "SecretAccessKey": f"secret-of-{access_key}",
            "Token": f"token-of-{access_key}",
            "Expiration": (datetime.now(UTC) + life).strftime(_TIME),
        }

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
