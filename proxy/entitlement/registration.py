"""Mode `container`: RegisterUsage of the AWS Marketplace Metering Service, which works on ECS, EKS and Fargate only.

Source: https://docs.aws.amazon.com/marketplace/latest/APIReference/API_marketplace-metering_RegisterUsage.html
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from s4weights.proxy.errors import EntitlementUnknown, NotEntitled
from s4weights.proxy.limits import METERING_CONNECT_S, METERING_READ_S

from .region import platform_region
from .usage_token import ProductKey

# An answer that no other try changes.
REFUSALS: Final = frozenset(
    {
        "CustomerNotEntitledException",
        "DisabledApiException",
        "InvalidProductCodeException",
        "InvalidPublicKeyVersionException",
        "InvalidRegionException",
        "PlatformNotSupportedException",
    }
)
_TRANSIENT: Final = frozenset({"InternalServiceErrorException", "Throttling", "ThrottlingException"})
# As long as the service takes.
_NONCE_BYTES: Final = 32


async def check_container(product_code: str, key: ProductKey, environment: Mapping[str, str]) -> None:
    """Register this container, and check who answered. Raises: NotEntitled, EntitlementUnknown, PlatformSilent."""
    region = await platform_region(environment)
    nonce = secrets.token_hex(_NONCE_BYTES)
    answer = await _register(product_code, key.version, nonce, region)
    token = answer.get("Signature")
    if not isinstance(token, str) or not token:
        # A 200 that holds HTML, or nothing, is a success to botocore.
        raise NotEntitled(f"RegisterUsage in {region}: expected a signature, found none: something else answered")
    key.check(token, product_code, nonce)


async def _register(product_code: str, key_version: int, nonce: str, region: str) -> Mapping[str, Any]:
    config = AioConfig(
        region_name=region,
        connect_timeout=METERING_CONNECT_S,
        read_timeout=METERING_READ_S,
        retries={"mode": "standard", "total_max_attempts": 1},
        # Users point AWS_ENDPOINT_URL at this proxy: whatever stands there must not answer this call.
        ignore_configured_endpoint_urls=True,
    )
    what = f"RegisterUsage in {region}"
    try:
        async with get_session().create_client("meteringmarketplace", region_name=region, config=config) as client:
            answer: Mapping[str, Any] = await client.register_usage(
                ProductCode=product_code, PublicKeyVersion=key_version, Nonce=nonce
            )
            return answer
    except ClientError as error:
        fields = error.response.get("Error", {})
        code = str(fields.get("Code", ""))
        message = f"{what}: {code}: {fields.get('Message', '')}"
        if code in REFUSALS:
            raise NotEntitled(message) from error
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500))
        raise EntitlementUnknown(message, may_pass=code in _TRANSIENT or status >= 500) from error
    except (BotoCoreError, ResponseParserError, aiohttp.ClientError, OSError) as error:
        raise EntitlementUnknown(f"{what}: {error}") from error
