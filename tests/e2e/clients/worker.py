"""A client in a process of its own, as its users run it: other Python, other pins, or node."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.e2e.clients.catalogue import FOLDER, Program


class ClientFailed(AssertionError):
    """What the client said."""


class Worker:
    """For the length of a block. environment: credentials, region and endpoint; folder: its home and scratch."""

    def __init__(self, program: Program, environment: dict[str, str], bucket: str, folder: Path) -> None:
        self._log = folder / "stderr"
        folder.mkdir(exist_ok=True)
        self._environment = {
            "PATH": f"{program.interpreter.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "BUCKET": bucket,
            "CLIENT_VENV": str(program.interpreter.parent.parent),
            **environment,
        }
        source = FOLDER / "each" / program.module
        self._command = [str(program.interpreter)]
        self._command += [str(source)] if source.suffix == ".mjs" else ["-P", str(FOLDER / "far_end.py"), str(source)]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._log.parent,
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def call(self, method: str, **arguments: Any) -> Any:
        """Raises: ClientFailed with the client's own traceback."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"method": method, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline() or '{"error": "the client ended"}')
        except BrokenPipeError:
            answer = {"error": "the client had ended"}
        if "error" in answer:
            raise ClientFailed(f"{method}: {answer['error']}\n{self._log.read_text(errors='replace')[-2000:]}")
        return answer["value"]
