"""Ratio against speed as a picture; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from s4weights.codec.errors import ConfigError

from .candidate import COPY, DECODE, ENCODE, VERIFIED
from .ours import OURS
from .rounds import Result


def require_matplotlib() -> None:
    """Raises: ConfigError where no picture can be made: better before the measurements than after."""
    _figures()


def draw(results: Sequence[Result], title: str, target: Path) -> None:
    """Write a PNG: one panel for encoding, one for decoding; memcpy's speed as a line. Raises: ConfigError, OSError."""
    figure = _figures().Figure(figsize=(12, 5.5), layout="constrained")
    figure.suptitle(title)
    encoding, decoding = figure.subplots(1, 2, sharey=True)
    for number, result in enumerate(one for one in results if one.failure is None):
        _mark(encoding, result, ENCODE, number)
        _mark(encoding, result, VERIFIED, number)
        _mark(decoding, result, DECODE, number)
    for panel, text in ((encoding, "encode"), (decoding, "decode")):
        for result in results:
            if (speed := result.speed(COPY)) is not None:
                panel.axvline(speed, color="gray", linestyle=":", label="memcpy")
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter("")
        panel.set_xlabel(f"{text}, GB/s of body, one thread")
        panel.grid(visible=True, which="both", alpha=0.3)
        panel.margins(0.1)
    encoding.set_ylabel("ratio, logical by stored bytes")
    figure.legend(*encoding.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)
    figure.savefig(target, format="png", dpi=120)


def _mark(panel: Any, result: Result, step: str, number: int) -> None:
    """A point; hollow where verification is in the time, a star for our own."""
    speed = result.speed(step)
    if speed is None:
        return
    panel.plot(
        [speed],
        [result.ratio],
        linestyle="",
        marker="*" if result.candidate.startswith(OURS) else "o",
        markersize=14 if result.candidate.startswith(OURS) else 8,
        color=f"C{number}",
        fillstyle="none" if step == VERIFIED else "full",
        label=f"{result.candidate}, verified" if step == VERIFIED else result.candidate,
    )


def _figures() -> Any:
    try:
        return import_module("matplotlib.figure")
    except ImportError:
        raise ConfigError("--plot: matplotlib is missing: pip install 's4weights[bench]'") from None
