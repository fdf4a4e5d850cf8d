"""Mode `ami`: EC2 itself says, signed, which products this instance was bought with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from s4weights.proxy.errors import NotEntitled
from s4weights.proxy.instance_metadata import InstanceMetadata

from .signed_document import verified_document

# The hypervisor's own word on Nitro, which g6 and g6e are.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html
ASSET_TAG = Path("/sys/devices/virtual/dmi/id/board_asset_tag")


async def check_instance(product_code: str, keys: Sequence[RSAPublicKey]) -> None:
    """Whether this very instance came with the product. Raises: NotEntitled, PlatformSilent."""
    async with InstanceMetadata.open() as metadata:
        encoded = await metadata.get("dynamic/instance-identity/rsa2048")
        told = {(await metadata.get("meta-data/instance-id")).strip()}
    document = _parsed(verified_document(encoded, keys))
    tag = _asset_tag()
    if tag.startswith("i-"):
        told.add(tag)
    if told != {document.get("instanceId")}:
        found = str(document.get("instanceId"))[:40]
        raise NotEntitled(f"identity document: expected that of {' and '.join(sorted(told))}, found that of {found}")
    codes = document.get("marketplaceProductCodes")
    if not isinstance(codes, list) or product_code not in codes:
        raise NotEntitled(f"identity document: expected the product code {product_code!r}, found {codes or 'none'}")


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise NotEntitled("identity document: expected a JSON object, found something else")
    return document


def _asset_tag() -> str:
    try:
        return ASSET_TAG.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
