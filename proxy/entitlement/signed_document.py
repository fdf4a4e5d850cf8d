"""A document in a PKCS #7 envelope (CMS SignedData), as EC2 signs the identity of an instance.

The certificates are those that AWS publishes for RSA-2048, one a region, in a PEM file that the image brings.
Source: RFC 5652, section 5; https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/verify-rsa2048.html
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from asn1crypto import cms
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from s4weights.codec.errors import ConfigError
from s4weights.proxy.errors import NotEntitled
from s4weights.proxy.limits import MIN_RSA_BITS

_WHERE: Final = "the signed identity of this instance"
# The two ways of writing RSA with PKCS #1 v1.5 padding; the digest stands apart and is SHA-256.
_SIGNATURES: Final = frozenset({"rsassa_pkcs1v15", "sha256_rsa"})


def load_certificates(file: Path) -> list[RSAPublicKey]:
    """The keys of AWS's certificates. Raises: ConfigError."""
    where = f"identity_certificates_file {file}"
    try:
        certificates = x509.load_pem_x509_certificates(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{where}: expected certificates in PEM, found something else") from None
    keys = []
    for one in certificates:
        key = one.public_key()
        if not isinstance(key, RSAPublicKey) or key.key_size < MIN_RSA_BITS:
            raise ConfigError(
                f"{where}: expected AWS's RSA-2048 certificates alone, found {one.subject.rfc4514_string()}"
            )
        keys.append(key)
    return keys


def verified_document(encoded: str, keys: Sequence[RSAPublicKey]) -> bytes:
    """The bytes inside the envelope, once one of keys has signed them. encoded: base64. Raises: NotEntitled."""
    try:
        content, signed, signature = _opened(base64.b64decode("".join(encoded.split()), validate=True))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise NotEntitled(f"{_WHERE}: expected a PKCS #7 envelope, found: {error}") from error
    for key in keys:
        try:
            key.verify(signature, signed, PKCS1v15(), SHA256())
        except InvalidSignature:
            continue
        return content
    raise NotEntitled(f"{_WHERE}: expected a signature by one of AWS's certificates, found none that fits")


def _opened(der: bytes) -> tuple[bytes, bytes, bytes]:
    """(content, signed bytes, signature). Raises: ValueError and what asn1crypto raises on damage."""
    envelope: Any = cms.ContentInfo.load(der, strict=True)
    if envelope["content_type"].native != "signed_data":
        raise ValueError(f"content type {envelope['content_type'].native}")
    data = envelope["content"]
    content = data["encap_content_info"]["content"].native
    if not isinstance(content, bytes):
        raise ValueError("no document inside")
    if len(data["signer_infos"]) != 1:
        raise ValueError(f"{len(data['signer_infos'])} signers")
    signer = data["signer_infos"][0]
    algorithms = (signer["digest_algorithm"]["algorithm"].native, signer["signature_algorithm"]["algorithm"].native)
    if algorithms[0] != "sha256" or algorithms[1] not in _SIGNATURES:
        raise ValueError(f"signed with {algorithms}")
    signed = content
    if len(signer["signed_attrs"]):
        attributes = {one["type"].native: one["values"] for one in signer["signed_attrs"]}
        if attributes["message_digest"][0].native != hashlib.sha256(content).digest():
            raise ValueError("the digest of another document")
        # Signed is the set itself, without the tag that it has in here.
        signed = signer["signed_attrs"].untag().dump()
    return content, signed, signer["signature"].native
