"""Keys, certificates, tokens and envelopes as AWS makes them, of a kind that tests may make themselves."""

from __future__ import annotations

import base64
import datetime
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256, HashAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat, pkcs7
from cryptography.x509.oid import NameOID


@cache
def rsa_key(name: str) -> RSAPrivateKey:
    """One a name; made when first asked for. `short`: too short."""
    return rsa.generate_private_key(public_exponent=65537, key_size=1024 if name == "short" else 2048)


def private_pem(key: RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(key: RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@cache
def certificate(name: str, *hosts: str) -> x509.Certificate:
    """Signed by itself, for the key of that name."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    key = rsa_key(name)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(one) for one in hosts]), critical=False
        )
    return builder.sign(key, SHA256())


def envelope(
    content: bytes, signer: str = "aws", digest: HashAlgorithm | None = None, *, attributes: bool = True
) -> str:
    """What /latest/dynamic/instance-identity/rsa2048 gives: base64 in lines, the document inside."""
    options = [pkcs7.PKCS7Options.Binary] + ([] if attributes else [pkcs7.PKCS7Options.NoAttributes])
    builder = pkcs7.PKCS7SignatureBuilder().set_data(content)
    der = builder.add_signer(certificate(signer), rsa_key(signer), digest or SHA256()).sign(Encoding.DER, options)  # type: ignore[arg-type]
    return base64.encodebytes(der).decode()


@dataclass(frozen=True, slots=True)
class Files:
    """What an image brings, in a folder."""

    product_key: Path
    certificates: Path

    @classmethod
    def write(cls, folder: Path) -> Files:
        files = cls(folder / "product.pem", folder / "aws.pem")
        files.product_key.write_bytes(public_pem(rsa_key("product")))
        # AWS has one a region: that of this one is not the first.
        pems = [certificate(name).public_bytes(Encoding.PEM) for name in ("another region", "aws")]
        files.certificates.write_bytes(b"".join(pems))
        return files
