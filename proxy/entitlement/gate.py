"""The one question at the start, in the mode that is set, asked again for a bounded time where nobody answered."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from pathlib import Path

from s4weights.codec.errors import ConfigError
from s4weights.proxy.config import Settings
from s4weights.proxy.errors import EntitlementUnknown, PlatformSilent

_log = logging.getLogger(__name__)


async def require_entitlement(
    settings: Settings, environment: Mapping[str, str], explain: Callable[[str], None]
) -> None:
    """Return where this machine may run the product, or where nothing is asked for.

    environment: of this process; only what the container platform itself sets is read. explain: told why it is not yet known.
    Raises: NotEntitled; EntitlementUnknown after settings.entitlement_retry_s; ConfigError.
    """
    if settings.entitlement == "off":
        return
    try:
        ask = _question(settings, environment)
    except ImportError as error:
        raise ConfigError(f"{error.name} is missing: pip install 's4weights[marketplace]'") from None
    from s4weights.proxy.upstream.bucket.calls import pause_s  # with all of botocore, which a directory does without

    began_s = time.monotonic()
    for attempt in count(1):
        try:
            await ask()
            break
        except PlatformSilent as error:
            unknown = EntitlementUnknown(str(error))
        except EntitlementUnknown as error:
            unknown = error
        wait_s = pause_s(attempt)
        if not unknown.may_pass or time.monotonic() - began_s + wait_s > settings.entitlement_retry_s:
            raise unknown
        _log.warning("asked again in %.1f s: %s", wait_s, unknown)
        explain(f"entitlement is not known yet: {unknown}")
        await asyncio.sleep(wait_s)
    _log.info("entitled to %s (%s)", settings.product_code, settings.entitlement)


def _question(settings: Settings, environment: Mapping[str, str]) -> Callable[[], Awaitable[None]]:
    if settings.entitlement == "ami":
        from .identity import check_instance
        from .signed_document import load_certificates

        certificates = load_certificates(Path(settings.identity_certificates_file))
        return lambda: check_instance(settings.product_code, certificates)
    from .registration import check_container
    from .usage_token import ProductKey

    key = ProductKey.load(Path(settings.product_key_file), settings.product_key_version)
    return lambda: check_container(settings.product_code, key, environment)
