"""Who pays for the bucket's calls: where the requesters do, S3 wants it said with each of them."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

REQUEST_PAYER: Final = "x-amz-request-payer"

request_payer: ContextVar[str] = ContextVar("request_payer", default="")
"""What the client said in the request that is being answered."""


def payer_header() -> dict[str, str]:
    """For a call that this request causes."""
    said = request_payer.get()
    return {REQUEST_PAYER: said} if said else {}


def say_who_pays(request: Any, **_: object) -> None:
    """Before botocore signs a request."""
    for name, value in payer_header().items():
        del request.headers[name]  # botocore's headers keep both
        request.headers[name] = value
