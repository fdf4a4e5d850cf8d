"""The codec's results as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from codec_bodies import Threads
from codec_targets import BALANCED, MEMCPY, OURS, RANS, SMALL, ZIPNN, Table, Target, divide
from results import markdown_table

from s4weights.measure.candidate import COPY, DECODE, ENCODE, ENGINE_DECODE, ENGINE_VERIFIED, VERIFIED
from s4weights.measure.rounds import Result

# Columns of a speed table: what, of ours, and of a peer, which has no more than one of each.
_STEPS = (
    ("encode, engine", ENCODE),
    ("and compare, engine", ENGINE_VERIFIED),
    ("encode, default", VERIFIED),
    ("decode, engine", ENGINE_DECODE),
    ("decode, default", DECODE),
)


def target_table(targets: Sequence[Target]) -> str:
    return markdown_table(["target", "required", "found", "by fastest rounds", "met"], [one.cells() for one in targets])


def size_table(sizes: Table, bounds: Mapping[str, float]) -> str:
    names = list(dict.fromkeys(name.partition(" deconstruct")[0] for row in sizes.values() for name in row))
    names.remove(MEMCPY)
    rows = []
    for row, results in sizes.items():
        by_name = {name.partition(" deconstruct")[0]: one for name, one in results.items()}
        ours = results[BALANCED]
        cells = [f"{ours.logical_bytes / 1e6:.1f}", *(_ratio(by_name.get(name)) for name in names)]
        shares = [f"{results[level].stored_bytes / bounds[row]:.4f}" for level in (BALANCED, SMALL)]
        rows.append([row, *cells, f"{ours.logical_bytes / bounds[row]:.3f}", *shares])
    shown = [name.removeprefix("s4weights ") for name in names]
    return markdown_table(["", "MB", *shown, "bound", "balanced / bound", "small / bound"], rows)


def whole_table(whole: Mapping[str, int], logical_bytes: int) -> str:
    rows = [
        [name, f"{size / 1e6:.2f}", f"{logical_bytes / size:.4f}"]
        for name, size in sorted(whole.items(), key=lambda pair: pair[1])
    ]
    return markdown_table([f"whole mixed checkpoint, {logical_bytes / 1e6:.1f} MB", "stored MB", "ratio"], rows)


def speed_table(speeds: Table) -> str:
    """Every candidate of every row; in front what the two references do."""
    rows = []
    for row, results in speeds.items():
        zipnn = results.get(ZIPNN)
        for name, one in results.items():
            if one.failure is not None:
                rows.append([row, name, *[""] * len(_STEPS), "failed", "", ""])
                continue
            mine = name in (*OURS, RANS)
            encode, decode = (ENCODE, ENGINE_DECODE) if mine else (ENCODE, DECODE)
            copy = results[MEMCPY].speed(COPY)
            cells = [_speed(one, COPY)] + [""] * 4 if name == MEMCPY else _peer_cells(one) if not mine else _cells(one)
            times = [
                _times(divide(one.speed(encode), zipnn.speed(ENCODE) if zipnn else None)),
                _times(divide(one.speed(decode), zipnn.speed(DECODE) if zipnn else None)),
                _times(divide(one.speed(decode), copy)),
            ]
            rows.append([row, name, *cells, *times])
    columns = ["", "", *(title for title, _ in _STEPS), "encode / zipnn", "decode / zipnn", "decode / memcpy"]
    return f"{markdown_table(columns, rows)}\n\n{_verification(speeds)}"


def _verification(speeds: Table) -> str:
    """What the comparison costs, and what the hashes and the header do, as shares of the default encode."""
    rows = []
    for row, results in speeds.items():
        for level in OURS:
            seconds = results[level].least
            compare = seconds[ENGINE_VERIFIED] - seconds[ENCODE]
            hashes = seconds[VERIFIED] - seconds[ENGINE_VERIFIED]
            rows.append([row, level, *(f"{100 * part / seconds[VERIFIED]:.0f} %" for part in (compare, hashes))])
    columns = ["", "of a default encode (fastest rounds)", "comparison", "hashes and header"]
    return markdown_table(columns, rows)


def thread_table(threads: Sequence[Threads]) -> str:
    rows = []
    for one in threads:
        gb = one.logical_bytes / 1e9
        rows.append(
            [
                one.name,
                f"{gb / median(one.one):.2f} ({gb / min(one.one):.2f})",
                f"{gb / median(one.two):.2f} ({gb / min(one.two):.2f})",
                f"{one.gain:.2f} ({one.least_gain:.2f})",
            ]
        )
    return markdown_table(["`balanced`, default", "one thread", "two threads", "two by one, median of pairs"], rows)


def body_table(bodies: Table) -> str:
    rows = []
    for name, results in bodies.items():
        for candidate in (MEMCPY, *OURS):
            one = results[candidate]
            cells = [_speed(one, COPY), "", "", ""]
            if candidate != MEMCPY:
                cells = [_speed(one, step) for step in (ENCODE, VERIFIED, ENGINE_DECODE, DECODE)]
            above = f"{one.stored_bytes - one.logical_bytes:+d}" if candidate != MEMCPY else ""
            copied = divide(one.speed(ENCODE), results[MEMCPY].speed(COPY))
            rows.append([name, candidate, above, *cells, _times(copied)])
    columns = ["", "", "stored - raw, bytes", "encode, engine", "encode, default", "decode, engine", "decode, default"]
    return markdown_table([*columns, "encode / memcpy"], rows)


def _cells(one: Result) -> list[str]:
    return [_speed(one, step) for _, step in _STEPS]


def _peer_cells(one: Result) -> list[str]:
    return [_speed(one, ENCODE), "", "", _speed(one, DECODE), ""]


def _speed(one: Result, step: str) -> str:
    found, best = one.speed(step), one.speed(step, best=True)
    return "" if found is None or best is None else f"{found:.2f} ({best:.2f})"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _ratio(one: Result | None) -> str:
    return "" if one is None else "failed" if one.failure is not None else f"{one.ratio:.3f}"
