"""`s4weights serve` with AWS's link-local addresses where the stand-ins are. Nothing else differs from the product.

usage: python -m tests.proxy.entitlement.serve METADATA_ADDRESS ASSET_TAG_FILE POD_TOKEN_FILE [argument of serve ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from s4weights.cli import main
from s4weights.proxy.entitlement import identity, metadata, region

if __name__ == "__main__":
    address, tag, token, *arguments = sys.argv[1:]
    metadata.INSTANCE_ADDRESS = address
    region.TASK_ADDRESS = address
    region.POD_TOKEN = Path(token)
    identity.ASSET_TAG = Path(tag)
    sys.exit(main(["serve", *arguments]))
