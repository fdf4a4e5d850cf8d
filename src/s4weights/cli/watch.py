"""s4weights watch."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any, Final

from .extras import proxy_extra

_EPILOG: Final = """\
Looks at the health port, and writes what it saw to a log group in the embedded metric format, from which CloudWatch makes
metrics (namespace s4weights, dimension Stack). With --replace-after it tells Auto Scaling that the machine is unhealthy,
where the proxy was ready once and has given no sign of life for so long.

example:
  s4weights watch --log-group /s4weights/train --stack train --region us-east-1
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "watch",
        help="tell CloudWatch, beside `serve`, how it does",
        description="Watch the proxy of this machine for CloudWatch and Auto Scaling.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--log-group", required=True, metavar="NAME", help="that takes the events; it must exist")
    parser.add_argument("--stack", required=True, metavar="NAME", help="the dimension of all metrics")
    parser.add_argument("--region", required=True, help="of the log group and the Auto Scaling group")
    parser.add_argument("--health", default="http://127.0.0.1:8080", metavar="URL", help="of the proxy's health port")
    parser.add_argument("--state", default="/var/lib/s4weights", metavar="DIR", help="whose disk is looked at")
    parser.add_argument("--every", type=float, default=60.0, metavar="SECONDS", help="between two looks (60)")
    parser.add_argument("--replace-after", type=float, default=0.0, metavar="SECONDS", help="0, the default: never")
    parser.add_argument("--endpoint-url", default="", metavar="URL", help="of the AWS services; AWS_* is not followed")
    parser.add_argument("--looks", type=int, default=0, metavar="N", help="end after so many (0: never)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Watch until it is ended."""
    with proxy_extra():
        from s4weights.proxy.logs import set_up_logging
        from s4weights.proxy.watch.run import Watched, watch
    set_up_logging("INFO", "text")
    watched = Watched(
        health=options.health.rstrip("/"),
        state_dir=Path(options.state),
        log_group=options.log_group,
        stack=options.stack,
        region=options.region,
        every_s=options.every,
        replace_after_s=options.replace_after,
        endpoint=options.endpoint_url,
        looks=options.looks,
    )
    asyncio.run(watch(watched))
    return 0
