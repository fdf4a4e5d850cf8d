"""What the data allows: the entropy of each field of a mixed checkpoint, plain and given what is known of row and column."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import make_data
import numpy as np
from codec_rows import components, to_bf16
from results import machine, markdown_table, write_section
from train_gpt import save_checkpoints

from s4weights.codec.frames import columns_of
from s4weights.codec.types import ElementType
from s4weights.measure.components import Component

ROLES = ("master weights", "optimizer m", "optimizer v")
# Levels are rounded to whole octaves, negative differences moved up by this to be counted.
_OFFSET = 256


def entropy_bits(symbols: Any) -> float:
    """Bits of all symbols together, by an ideal order-0 coder; symbols: from 0 on."""
    counts = np.bincount(symbols.ravel())
    counts = counts[counts > 0]
    return float(-(counts * np.log2(counts / symbols.size)).sum())


def conditional_bits(symbols: Any, contexts: Any) -> float:
    """The same with a table for each context."""
    pairs = contexts.astype(np.int64) * _OFFSET + symbols
    return entropy_bits(pairs) - entropy_bits(contexts)


def level_of_each(exponents: Any) -> Any:
    """Row level plus column level of every element, in whole octaves; exponents: rows by columns."""
    rows = exponents.mean(axis=1, keepdims=True)
    columns = (exponents - rows).mean(axis=0, keepdims=True)
    return np.clip(np.rint(rows + columns), 0, 255).astype(np.int64)


def tensors_of(component: Component) -> list[Any]:
    """Words, rows by columns where there are any."""
    found = []
    for run in component.runs:
        words = np.frombuffer(run.source.read(run.start, run.length), f"<u{component.element.width}")
        columns = columns_of(run.segments[0].shape or ()) or words.size
        found.append(words.reshape(-1, columns))
    return found


def exponent(words: Any) -> Any:
    """Of fp32."""
    return ((words >> 23) & 0xFF).astype(np.int64)


def describe(tensors: Sequence[Any]) -> dict[str, float]:
    """Bits a value of fp32 tensors."""
    exponents = [exponent(words) for words in tensors]
    values = sum(words.size for words in tensors)
    levels = [level_of_each(one) for one in exponents]
    ways: dict[str, Callable[[], float]] = {
        "exponent, one table for all": lambda: entropy_bits(np.concatenate([one.ravel() for one in exponents])),
        "table a tensor": lambda: sum(map(entropy_bits, exponents)),
        "minus round(row + column level)": lambda: sum(
            entropy_bits(one - level + _OFFSET) for one, level in zip(exponents, levels, strict=True)
        ),
        "given row + column": lambda: sum(map(conditional_bits, exponents, levels)),
        "sign": lambda: sum(entropy_bits(words >> 31) for words in tensors),
        "mantissa, upper 7 bits": lambda: sum(entropy_bits((words >> 16) & 0x7F) for words in tensors),
        "mantissa, middle 8": lambda: sum(entropy_bits((words >> 8) & 0xFF) for words in tensors),
        "mantissa, lowest 8": lambda: sum(entropy_bits(words & 0xFF) for words in tensors),
    }
    return {name: bits() / values for name, bits in ways.items()}


def rounding_exceptions(model: Component, master: Component) -> tuple[int, int]:
    """Values of the bf16 model that are not their master's, rounded to nearest even; and how many there are."""
    wrong = total = 0
    for mine, theirs in zip(model.runs, master.runs, strict=True):
        rounded = np.frombuffer(to_bf16(theirs.source.read(theirs.start, theirs.length)), "<u2")
        stored = np.frombuffer(mine.source.read(mine.start, mine.length), "<u2")
        wrong += int((rounded != stored).sum())
        total += stored.size
    return wrong, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="small", choices=("tiny", "small"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args()
    path, _ = save_checkpoints(make_data.DATA, options.size, ["mixed"], [options.steps])
    found = components(path)
    described = {role: describe(tensors_of(found[role, ElementType.F32])) for role in ROLES}
    columns = ["bits a value", *described[ROLES[0]]]
    rows = [[role, *(f"{bits:.2f}" for bits in one.values())] for role, one in described.items()]
    wrong, total = rounding_exceptions(
        found["model weights", ElementType.BF16], found["master weights", ElementType.F32]
    )
    text = (
        f"{path.name}, tensors of at least 64 KiB; order-0 entropy with ideal tables, their cost and that of levels not "
        "counted. A level is a mean of exponents; a table a tensor from the second column on.\n\n"
        f"{markdown_table(columns, rows)}\n\n"
        f"Values of the bf16 model that are not their master's rounded to nearest even: {wrong} of {total}.\n\n{machine()}"
    )
    print(text)
    if not options.dry_run:
        write_section("What the data allows", text)


if __name__ == "__main__":
    main()
