"""RegisterUsage's answer: a token (JWT) that only the holder of the product's private key can have signed.

Source: https://docs.aws.amazon.com/marketplace/latest/userguide/container-metering-registerusage.html
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from s4weights.codec.errors import ConfigError
from s4weights.proxy.errors import NotEntitled
from s4weights.proxy.limits import CLOCK_SKEW_S, MIN_RSA_BITS

# One algorithm, whatever the token's own header says.
_ALGORITHM: Final = "PS256"


@dataclass(frozen=True, slots=True)
class ProductKey:
    """The product's public key, as AWS Marketplace gave it to the seller, and its number there."""

    public: RSAPublicKey
    version: int

    @classmethod
    def load(cls, file: Path, version: int) -> ProductKey:
        """Read a PEM file. Raises: ConfigError."""
        where = f"product_key_file {file}"
        try:
            public = load_pem_public_key(file.read_bytes())
        except OSError as error:
            raise ConfigError(f"{where}: {error.strerror}") from None
        except (ValueError, UnsupportedAlgorithm):
            raise ConfigError(f"{where}: expected a public key in PEM, found something else") from None
        if not isinstance(public, RSAPublicKey) or public.key_size < MIN_RSA_BITS:
            raise ConfigError(f"{where}: expected an RSA key of at least {MIN_RSA_BITS} bits, found another key")
        return cls(public, version)

    def check(self, token: str, product_code: str, nonce: str) -> None:
        """Whether a token answers our own question. Raises: NotEntitled."""
        where = "the signature of RegisterUsage"
        try:
            claims = jwt.decode(
                token, self.public, algorithms=[_ALGORITHM], leeway=CLOCK_SKEW_S, options={"verify_aud": False}
            )
        except jwt.PyJWTError as error:
            raise NotEntitled(f"{where}: expected {_ALGORITHM} by the product's key, found: {error}") from error
        expected = {"productCode": product_code, "nonce": nonce, "publicKeyVersion": str(self.version)}
        for name, value in expected.items():
            if (found := str(claims.get(name, ""))) != value:
                raise NotEntitled(f"{where}: {name}: expected {value!r}, found {found[:80]!r}")
