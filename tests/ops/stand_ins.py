"""AWS on a machine's loopback, for the time that stdin is open: the metadata service, and moto behind the services' own names.

usage: python stand_ins.py PAGES_FILE CERTIFICATE_FILE KEY_FILE      says `ready` once all of it answers
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from pathlib import Path

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tests.proxy.entitlement.stubs import Handler, Metadata, ThreadingHTTPServer


def serve_metadata(pages: dict[str, str]) -> ThreadingHTTPServer:
    answer = Metadata(pages).answer
    handler = type("MetadataHandler", (Handler,), {"answer": staticmethod(answer)})
    server = ThreadingHTTPServer(("169.254.169.254", 80), handler)
    server.daemon_threads = True
    return server


if __name__ == "__main__":
    pages, certificate, key = sys.argv[1:]
    moto = make_server(
        "127.0.0.1", 443, DomainDispatcherApplication(create_backend_app), threaded=True, ssl_context=(certificate, key)
    )
    for server in (serve_metadata(json.loads(Path(pages).read_text())), moto):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.read()
