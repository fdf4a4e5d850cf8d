"""The calls that are passed on, by the sub-resource that names them.

No others are: a server may take a sub-resource that it does not know, or not at this place, for none, and write the object for
`PUT /bucket/key?policy`. Source: https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FORWARDED: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("GET", "bucket"): frozenset(
        {
            "abac",
            "accelerate",
            "acl",
            "analytics",
            "cors",
            "encryption",
            "intelligent-tiering",
            "inventory",
            "lifecycle",
            "logging",
            "metadataConfiguration",
            "metadataTable",
            "metrics",
            "notification",
            "object-lock",
            "ownershipControls",
            "policy",
            "policyStatus",
            "publicAccessBlock",
            "replication",
            "requestPayment",
            "tagging",
            "versioning",
            "website",
        }
    ),
    ("PUT", "bucket"): frozenset(
        {
            "abac",
            "accelerate",
            "acl",
            "analytics",
            "cors",
            "encryption",
            "intelligent-tiering",
            "inventory",
            "lifecycle",
            "logging",
            "metadataInventoryTable",
            "metadataJournalTable",
            "metrics",
            "notification",
            "object-lock",
            "ownershipControls",
            "policy",
            "publicAccessBlock",
            "replication",
            "requestPayment",
            "tagging",
            "versioning",
            "website",
        }
    ),
    ("DELETE", "bucket"): frozenset(
        {
            "analytics",
            "cors",
            "encryption",
            "intelligent-tiering",
            "inventory",
            "lifecycle",
            "metadataConfiguration",
            "metadataTable",
            "metrics",
            "ownershipControls",
            "policy",
            "publicAccessBlock",
            "replication",
            "tagging",
            "website",
        }
    ),
    ("POST", "bucket"): frozenset({"metadataConfiguration", "metadataTable"}),
    ("GET", "object"): frozenset({"acl", "legal-hold", "retention", "tagging", "torrent"}),
    ("PUT", "object"): frozenset({"acl", "encryption", "legal-hold", "renameObject", "retention", "tagging"}),
    ("DELETE", "object"): frozenset({"tagging"}),
    ("POST", "object"): frozenset({"restore", "select"}),
}
"""(method, what is addressed) -> sub-resources."""
