"""What failed elsewhere, in public, and must not fail here: every number has a test, marked `case(number)`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

CASES = {
    # Shapes of files.
    1: "a .distcp is several zips in a row [pytorch#195982]",
    2: "CRCs of a zip that are 0 or wrong [pytorch#137735]",
    3: "TorchScript: deflated and stored entries mixed",
    4: "legacy files, two saves in one, keys that are pointers [pytorch#187246]",
    5: "tar files from before torch 0.1.8 [pytorch#1263]",
    6: "any storage alignment; a root named after the file [pytorch#184219]",
    7: "storages of more than 4 GiB, sizes in zip64 fields [anemoi-training#57]",
    8: "float8, uint16 to uint64, complex and float4 tensors [safetensors#839]",
    9: "shapes [0], [] and [3, 0]; equal offsets [vllm#1687]",
    10: "safetensors that no validator would pass [ComfyUI#15602, llama.cpp#1603, fastsafetensors#89, mlx#3363]",
    11: "big-endian files; tied and shared storages, views of several types [pytorch#65300, safetensors#98, pytorch#58970]",
    12: "numpy arrays of objects",
    # Trust.
    35: "the right size, wrong bytes, and success [huggingface_hub#3643, pytorch#28858]",
    36: "last bytes that were not written, types that failed [nvcomp#40, #97, #99]",
    37: "files that do not come back, formats that new builds cannot read [bzip3#131, openzl#591]",
    38: "bools that hold 2 or 255",
    # Security.
    39: "pickles that execute",
    40: "a tiny file that claims a huge count [candle#3533, llama.cpp#18674]",
    41: "names in archives that climb",
    42: "session tokens and presigned queries in debug logs [mcp-proxy-for-aws#166]",
    43: "a body longer than its Content-Length [minio#16484]",
}


def marked() -> dict[int, list[str]]:
    """Tests by the numbers that they are marked with."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in numbers(node):
                    found.setdefault(number, []).append(f"{path.relative_to(TESTS)}::{node.name}")
    return found


def numbers(test: ast.FunctionDef | ast.AsyncFunctionDef) -> list[int]:
    """What the decorator `pytest.mark.case(...)` of a test says."""
    calls = [one for one in test.decorator_list if isinstance(one, ast.Call)]
    cases = [one for one in calls if ast.unparse(one.func) == "pytest.mark.case"]
    return [ast.literal_eval(argument) for one in cases for argument in one.args]


@pytest.mark.parametrize("number", CASES)
def test_every_case_has_a_test(number):
    assert marked().get(number), f"no test is marked case({number}): {CASES[number]}"


def test_every_mark_is_of_a_case():
    assert set(marked()) <= set(CASES)
