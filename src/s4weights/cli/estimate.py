"""s4weights estimate."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from s4weights.engine import open_engine
from s4weights.measure.bootstrap import CONFIDENCE
from s4weights.measure.estimate import MIN_SAMPLE_BYTES, SAMPLE_BYTES, Estimate, Row, estimate
from s4weights.measure.sources import open_sources

from .output import counted, natural, printable, progress_bar, size
from .settings import add_engine

# USD a GB and month of S3 Standard in us-east-1, the first 50 TB. S3 bills a GB as 2^30 bytes.
PRICE_USD: Final = 0.023
_PRICED: Final = "S3 Standard, us-east-1"
_BILLED_BYTES: Final = 1 << 30


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "estimate",
        help="what would be saved, before anything is stored",
        description="Say what each body would take by itself (twins within it, and earlier "
        "checkpoints, save more): read samples of a file, of all files "
        "below a folder or of all objects below a prefix, encode them, and "
        "estimate what the whole would take. Reads by range only and changes nothing. An estimate, never a promise.",
        epilog="examples:\n  s4weights estimate checkpoint.pt\n  s4weights estimate s3://bucket/runs/7/ --price 0.0125\n\n"
        "S3 is reached as AWS's own tools reach it: credentials, AWS_REGION, AWS_ENDPOINT_URL.\n"
        "Ask the bucket itself: the proxy would show what it packed already as it was before.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("place", metavar="PATH|DIR|s3://BUCKET/PREFIX")
    parser.add_argument(
        "--price",
        type=_amount,
        metavar="USD",
        help=f"a GB (2^30 bytes) and month; by default {PRICE_USD}, {_PRICED}",
    )
    parser.add_argument(
        "--max-bytes",
        type=natural,
        default=SAMPLE_BYTES,
        metavar="N",
        help=f"of samples to read, for more than a TB so much a TB ({SAMPLE_BYTES}, at least {MIN_SAMPLE_BYTES})",
    )
    add_engine(parser)
    parser.add_argument("--json", action="store_true", help="one object a line: the components, then the whole")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Estimate one place."""
    sources = open_sources(options.place)
    total = sum(source.size for source in sources)
    with progress_bar(f"estimate {printable(options.place)}", total) as progress:
        result = estimate(
            sources, open_engine(options.engine, one_by_one=True), progress, sample_bytes=options.max_bytes
        )
    price = PRICE_USD if options.price is None else options.price
    if options.json:
        _print_json(options.place, result, price)
    else:
        _print_table(options.place, result, price, named=options.price is None)
    return 0


def _amount(text: str) -> float:
    """An argument that is a price."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a price in USD, found {text!r}")
    return number


def _dollars(number: float, price: float) -> float:
    return number / _BILLED_BYTES * price


def _usd(number: float, price: float) -> str:
    """Cents from a dollar on, else two digits that say something."""
    dollars = _dollars(number, price)
    return f"{dollars:.2f}" if dollars >= 1 or not dollars else f"{dollars:.2g}"


def _print_json(place: str, result: Estimate, price: float) -> None:
    for row in result.rows:
        sys.stdout.write(json.dumps(_fields(row, price)) + "\n")
    whole = {
        **_fields(result.total, price),
        "place": place,
        "estimate": True,
        "confidence": CONFIDENCE,
        "usd_per_gb_month": price,
        "bodies": result.bodies,
        "read_bytes": result.read_bytes,
        "engine": result.engine,
    }
    sys.stdout.write(json.dumps(whole) + "\n")


def _fields(row: Row, price: float) -> dict[str, Any]:
    return {
        "component": row.component,
        "type": row.element or None,
        "logical_bytes": row.logical_bytes,
        "stored_bytes": row.stored_bytes,
        "stored_bytes_low": row.low,
        "stored_bytes_high": row.high,
        "saved_bytes": row.saved_bytes,
        "saved_usd_month": round(_dollars(row.saved_bytes, price), 6),
        "gains": row.gains,
        "pieces_encoded": row.sampled,
        "pieces": row.pieces,
        "bodies": row.bodies,
    }


def _print_table(place: str, result: Estimate, price: float, *, named: bool) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("component")
    table.add_column("type")
    for name in ("now", "stored, about", "saved, about", f"{CONFIDENCE:.0%} range", "USD a month"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in [*result.rows, result.total]:
        table.add_row(*_cells(row, price))
    console = Console(width=None if sys.stdout.isatty() else 200, markup=False, emoji=False, highlight=False)
    console.print(table)
    whole = result.total
    least, most = whole.logical_bytes - whole.high, whole.logical_bytes - whole.low
    console.print(
        f"\n{printable(place)}: {size(whole.logical_bytes)} in {counted(result.bodies, 'body', 'bodies')}; "
        f"probably {size(least)} to {size(most)} less, {_usd(least, price)} to {_usd(most, price)} USD a month at "
        f"{price:g} USD a GB{f' ({_PRICED})' if named else ''}.",
        soft_wrap=True,
    )
    console.print(
        f"An estimate from {size(result.read_bytes)} that were read ({whole.sampled} of {whole.pieces} pieces encoded and "
        f"decoded again, {result.engine}), not a promise: what was not read may differ. Twins within a body, and earlier "
        "checkpoints, save more.",
        soft_wrap=True,
    )


def _cells(row: Row, price: float) -> list[str]:
    label = f"{row.component}, {counted(row.bodies, 'body', 'bodies')}" if row.bodies else row.component
    cells = [label, row.element, size(row.logical_bytes), size(row.stored_bytes)]
    if row.pieces and not row.sampled:
        return [*cells, "not sampled", "", ""]
    if not row.gains:
        return [*cells, "nothing", "", ""]
    least, most = (1 - bound / row.logical_bytes for bound in (row.high, row.low))
    saved = f"{size(row.saved_bytes)} ({row.saved_bytes / row.logical_bytes:.1%})"
    return [*cells, saved, f"{least:.1%} to {most:.1%}", _usd(row.saved_bytes, price)]
