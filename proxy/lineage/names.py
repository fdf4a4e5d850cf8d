"""Where pins, tombstones and hidden bases lie in the bucket. Source: docs/architecture.md, Deltas."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from typing import Final

from s4weights.codec.errors import FormatError

HIDDEN: Final = ".s4weights/"
_PINS: Final = f"{HIDDEN}pins/"
_TOMBS: Final = f"{HIDDEN}tombs/"
_BASES: Final = f"{HIDDEN}bases/"


@dataclass(frozen=True, slots=True)
class Content:
    """A body, by what it is and not by where it lies. digest: XXH3-128 in hex; size: logical bytes."""

    digest: str
    size: int

    def __str__(self) -> str:
        return f"{self.digest}-{self.size:x}"

    @classmethod
    def parse(cls, text: str) -> Content:
        """The inverse of str. Raises: FormatError."""
        digest, _, size = text.partition("-")
        try:
            if len(bytes.fromhex(digest)) == 16:
                return cls(digest, int(size, 16))
        except ValueError:
            pass
        raise FormatError(f"expected a digest and a size in hex, found {text!r}")


def new_nonce() -> str:
    """A name that nobody used before."""
    return secrets.token_hex(8)


def is_hidden(key: str) -> bool:
    """Whether a key is the product's own."""
    return key.startswith(HIDDEN)


def pins_of(content: Content) -> str:
    """Prefix of the pins that hold a base."""
    return f"{_PINS}{content}/"


def pin_key(content: Content, dependent: str, nonce: str) -> str:
    """One write of the object at key `dependent` needs the base. A pin is never written twice under one name."""
    return f"{pins_of(content)}{nonce}.{_hashed(dependent)}"


def pin_text(dependent: str) -> bytes:
    """What a pin holds: whose it is."""
    return json.dumps({"dependent": dependent}).encode()


def read_pin(text: bytes) -> str:
    """The dependent's key. Raises: FormatError."""
    try:
        dependent = json.loads(text)["dependent"]
    except (ValueError, KeyError, TypeError):
        dependent = None
    if not isinstance(dependent, str):
        raise FormatError(f"pin: expected a dependent, found {text[:80]!r}")
    return dependent


def is_pin_of(pin: str, dependent: str) -> bool:
    """Whether a pin, by its name, belongs to a dependent."""
    return pin.endswith(f".{_hashed(dependent)}")


def tombs_of(content: Content) -> str:
    """Prefix of the tombstones that stand on a body: an object that holds it may be about to go."""
    return f"{_TOMBS}{content}/"


def tomb_key(content: Content, nonce: str) -> str:
    """One removal under way."""
    return f"{tombs_of(content)}{nonce}"


def hidden_of(content: Content) -> str:
    """Prefix of the copies that are kept for dependents alone."""
    return f"{_BASES}{content}/"


def hidden_key(content: Content, depth: int, nonce: str) -> str:
    """One such copy. depth: bodies behind it."""
    return f"{hidden_of(content)}{depth}.{nonce}"


def hidden_depth(key: str) -> int:
    """The depth that the name of a hidden copy says. Raises: FormatError."""
    depth = key.rpartition("/")[2].partition(".")[0]
    if not depth.isdigit():
        raise FormatError(f"hidden base: expected DEPTH.NAME, found {key!r}")
    return int(depth)


def content_of(key: str) -> Content:
    """The body that a pin, a tombstone or a hidden copy is about. Raises: FormatError."""
    for prefix in (_PINS, _TOMBS, _BASES):
        if key.startswith(prefix):
            return Content.parse(key.removeprefix(prefix).partition("/")[0])
    raise FormatError(f"expected a pin, a tombstone or a hidden base, found {key!r}")


ALL_PINS: Final = _PINS
ALL_TOMBS: Final = _TOMBS
ALL_HIDDEN: Final = _BASES


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
