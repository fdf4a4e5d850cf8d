"""Run by the client's own Python: one client, its methods called line by line over a pipe.

In: {"method": ..., "arguments": {...}}. Out: {"value": ...} or {"error": text}. Only the standard library is at hand here.
"""

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any


def load(path: Path) -> Any:
    """The object `Client()` of a module."""
    # Behind everything that is installed: the folder lends its shared modules and hides no package.
    sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Client()


def serve(path: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    # What a library prints must not end up between the answers.
    os.dup2(2, 1)
    client = None
    for line in sys.stdin:
        call = json.loads(line)
        try:
            client = client or load(path)
            answer = {"value": getattr(client, call["method"])(**call["arguments"])}
        except Exception:
            answer = {"error": traceback.format_exc(limit=-3)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
