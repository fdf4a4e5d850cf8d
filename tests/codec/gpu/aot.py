"""Compile every kernel ahead of time, for GPUs that are not here, and read what it needs: no stack, no spills, few registers.

In a process of its own, without TRITON_INTERPRET: python -m tests.codec.gpu.aot [capability ...]
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from s4weights.codec.gpu.kernels import (
    compare,
    exceptions,
    few_bits,
    histogram,
    level_fit,
    levels,
    pieces,
    planes,
    rans_decode,
    rans_encode,
)
from s4weights.codec.gpu.launcher import ON_GPU

# Compute capability: Ampere, L4 and L40S, H100 and H200.
CAPABILITIES = (80, 89, 90)
_WIDTHS = {
    1: [(1, 0), (1, 2), (1, 3)],
    2: [(2, 0), (2, 1), (2, 2), (2, 3), (4, 4), (2, 6)],
    4: [(4, 0), (4, 1), (4, 2), (4, 3), (2, 5), (4, 6)],
    8: [(8, 0), (8, 1), (8, 2), (8, 3), (8, 6)],
}


@dataclass(frozen=True)
class Build:
    """One kernel with its constants. registers: its budget, with which an SM still holds enough warps."""

    name: str
    kernel: Any
    fields: int
    constants: dict[str, int]
    registers: int
    warps: int = ON_GPU.warps
    takes_chunks: bool = False


def builds() -> Iterator[Build]:
    """Every kernel as the launcher starts it."""
    tiles = ON_GPU
    for width, kinds in _WIDTHS.items():
        for base_width, predictor in kinds:
            how = {"WIDTH": width, "BASE_WIDTH": base_width, "PREDICTOR": predictor, "TILE": tiles.elements}
            for name, kernel in (("split", planes.split_kernel), ("join", planes.join_kernel)):
                budget = 128 if predictor == 1 else 96 if width == 8 else 64
                yield Build(f"{name} {width} {predictor}", kernel, len(planes.FIELDS), how, budget)
    yield Build("histogram", histogram.histogram_kernel, len(histogram.FIELDS), {"TILE": tiles.histogram}, 64)
    chunks = {"CHUNKS": tiles.chunks}
    encode_fields, decode_fields = len(rans_encode.FIELDS), len(rans_decode.FIELDS)
    yield Build("rANS encode", rans_encode.rans_encode_kernel, encode_fields, chunks, 48, takes_chunks=True)
    yield Build("rANS decode", rans_decode.rans_decode_kernel, decode_fields, chunks, 48, takes_chunks=True)
    table_fields = len(rans_decode.TABLE_FIELDS)
    yield Build("rANS table", rans_decode.rans_table_kernel, table_fields, {"TILE": tiles.slots}, 128)
    yield Build("copy", pieces.copy_kernel, len(pieces.FIELDS), {"TILE": tiles.words}, 64)
    for narrowed, aligned in ((0, 0), (0, 1), (1, 1)):
        how = {"NARROWED": narrowed, "ALIGNED": aligned, "TILE": tiles.compared}
        yield Build(f"compare {narrowed} {aligned}", compare.compare_kernel, len(compare.FIELDS), how, 128)
    how = {"TILE": tiles.places}
    yield Build("repeats", compare.repeats_kernel, len(compare.REPEATS_FIELDS), how, 64)
    for name in ("count_exceptions", "pack", "unpack"):
        kernel = getattr(few_bits, f"{name}_kernel")
        yield Build(name, kernel, len(few_bits.FIELDS), {"TILE": tiles.symbols}, 96)
    for name in ("gather_exceptions", "scatter_exceptions"):
        kernel = getattr(exceptions, f"{name}_kernel")
        yield Build(name, kernel, len(exceptions.FIELDS), {"TILE": tiles.exceptions}, 64)
    for width in (2, 4, 8):
        how = {"WIDTH": width, "ROWS": tiles.rows, "COLUMNS": tiles.columns}
        for name in ("row_sums", "column_sums", "level_rows"):
            kernel = getattr(levels, f"{name}_kernel")
            yield Build(f"{name} {width}", kernel, len(levels.FIELDS), how, 128)
        how = {"WIDTH": width, "ROWS": tiles.fit_rows, "COLUMNS": tiles.fit_columns}
        yield Build(
            f"level_fit {width}", level_fit.level_fit_kernel, len(levels.FIELDS), how, 192, warps=tiles.fit_warps
        )


def compiled(build: Build, capability: int) -> Any:
    """As the launcher has it: the table is aligned, as everything that torch allocates."""
    signature = {"table": "*i64"}
    if build.takes_chunks:
        signature["chunks"] = "i32"
    constants = {"FIELDS": build.fields, **build.constants}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(
        fn=build.kernel, signature=signature, constexprs=constants, attrs={(0,): [["tt.divisibility", 16]]}
    )
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": build.warps})


def needs(cubin: bytes) -> dict[str, int]:
    """REG, STACK, LOCAL, SHARED of the one function in it."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "--dump-resource-usage", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    [line] = [line for line in text.splitlines() if "REG:" in line and "STACK:" in line]
    return {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL|SHARED):(\d+)", line)}


def report(capabilities: tuple[int, ...]) -> dict[str, dict[str, int]]:
    """By kernel and capability."""
    return {
        f"{build.name} sm_{capability}": {**needs(compiled(build, capability).asm["cubin"]), "budget": build.registers}
        for capability in capabilities
        for build in builds()
    }


if __name__ == "__main__":
    assert not os.environ.get("TRITON_INTERPRET")
    json.dump(report(tuple(map(int, sys.argv[1:])) or CAPABILITIES), sys.stdout, indent=1)
