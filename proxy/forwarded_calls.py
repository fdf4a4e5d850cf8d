"""The calls that are passed on, by the sub-resource that names them.

No others are: a server may take a sub-resource that it does not know, or not at this place, for none, and write the object for
`PUT /bucket/key?policy`. Source: https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_READ: Final = frozenset({"GET"})
_SET: Final = frozenset({"GET", "PUT"})
_SET_AND_REMOVED: Final = frozenset({"GET", "PUT", "DELETE"})
_MADE_AND_REMOVED: Final = frozenset({"GET", "POST", "DELETE"})
_PUT: Final = frozenset({"PUT"})
_POST: Final = frozenset({"POST"})

FORWARDED: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "bucket": {
        "abac": _SET,
        "accelerate": _SET,
        "acl": _SET,
        "analytics": _SET_AND_REMOVED,
        "cors": _SET_AND_REMOVED,
        "encryption": _SET_AND_REMOVED,
        "intelligent-tiering": _SET_AND_REMOVED,
        "inventory": _SET_AND_REMOVED,
        "lifecycle": _SET_AND_REMOVED,
        "logging": _SET,
        "metadataConfiguration": _MADE_AND_REMOVED,
        "metadataInventoryTable": _PUT,
        "metadataJournalTable": _PUT,
        "metadataTable": _MADE_AND_REMOVED,
        "metrics": _SET_AND_REMOVED,
        "notification": _SET,
        "object-lock": _SET,
        "ownershipControls": _SET_AND_REMOVED,
        "policy": _SET_AND_REMOVED,
        "policyStatus": _READ,
        "publicAccessBlock": _SET_AND_REMOVED,
        "replication": _SET_AND_REMOVED,
        "requestPayment": _SET,
        "tagging": _SET_AND_REMOVED,
        "versioning": _SET,
        "website": _SET_AND_REMOVED,
    },
    "object": {
        "acl": _SET,
        "encryption": _PUT,
        "legal-hold": _SET,
        "renameObject": _PUT,
        "restore": _POST,
        "retention": _SET,
        "select": _POST,
        "tagging": _SET_AND_REMOVED,
        "torrent": _READ,
    },
}
"""What is addressed -> sub-resource -> methods."""
