"""Signed forms: who signed the policy, and whether the form keeps to it. Source: AWS, POST Object, POST Policy."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from s4weights.proxy.errors import S3Error

from .canonical import ALGORITHM, sign, signing_key
from .credentials import Credential, CredentialStore
from .sigv4 import find_credential, parse_scope

# Fields that a policy need not name.
_FREE: Final = frozenset({"policy", "x-amz-signature", "file", "bucket"})
_NEEDED: Final = ("policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature")


@dataclass(frozen=True, slots=True)
class PostPolicy:
    """What a form that was signed allows. min_bytes, max_bytes: of its file."""

    credential: Credential
    min_bytes: int = 0
    max_bytes: int | None = None


def verify_form(
    fields: Mapping[str, str], bucket: str, credentials: CredentialStore, now: datetime | None = None
) -> PostPolicy:
    """Check a form's signature and policy. fields: by name in lower case, without the file.

    Raises: S3Error AccessDenied, SignatureDoesNotMatch, InvalidPolicyDocument, ...
    """
    if "awsaccesskeyid" in fields or ("signature" in fields and "x-amz-signature" not in fields):
        raise S3Error("InvalidRequest", f"Signature version 2 is not supported. Please use {ALGORITHM}.")
    missing = [name for name in _NEEDED if not fields.get(name)]
    if len(missing) == len(_NEEDED):
        raise S3Error("AccessDenied")
    if missing:
        raise S3Error("InvalidArgument", f"Bucket POST must contain a field named '{missing[0]}'.")
    if fields["x-amz-algorithm"] != ALGORITHM:
        raise S3Error("InvalidArgument", f"X-Amz-Algorithm only supports {ALGORITHM}.")
    access_key, scope = parse_scope(fields["x-amz-credential"], fields["x-amz-date"])
    credential = find_credential(credentials, access_key, fields.get("x-amz-security-token"))
    expected = sign(signing_key(credential.secret_key, scope), fields["policy"])
    if not hmac.compare_digest(expected.encode(), fields["x-amz-signature"].encode()):
        raise S3Error("SignatureDoesNotMatch", AWSAccessKeyId=access_key)
    document = _document(fields["policy"])
    _check_expiration(document.get("expiration"), now or datetime.now(UTC))
    return _check_conditions(document.get("conditions"), {**fields, "bucket": bucket}, credential)


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise _invalid("it is not JSON in base64") from None
    if not isinstance(document, dict):
        raise _invalid("it is not an object")
    return document


def _check_expiration(text: object, now: datetime) -> None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _invalid("'expiration' is not a time in UTC")
    if now > moment:
        raise _against("Policy expired.")


def _check_conditions(conditions: object, fields: Mapping[str, str], credential: Credential) -> PostPolicy:
    if not isinstance(conditions, list):
        raise _invalid("'conditions' is not a list")
    named: set[str] = set()
    least, most = 0, None
    for condition in conditions:
        kind, name, value = _condition(condition)
        if kind == "content-length-range":
            least, most = _sizes(condition)
            continue
        named.add(name)
        found = fields.get(name, "")
        if not (found.startswith(value) if kind == "starts-with" else found == value):
            raise _against(f'Policy Condition failed: ["{kind}", "${name}", "{value}"]')
    extra = sorted(
        name for name in fields if name not in named and name not in _FREE and not name.startswith("x-ignore-")
    )
    if extra:
        raise _against(f"Extra input fields: {', '.join(extra)}")
    return PostPolicy(credential, least, most)


def _condition(condition: object) -> tuple[str, str, str]:
    if isinstance(condition, dict) and len(condition) == 1:
        [(name, value)] = condition.items()
        if isinstance(value, str):
            return "eq", name.lower(), value
    if isinstance(condition, list) and len(condition) == 3 and isinstance(condition[0], str):
        kind, name, value = condition
        if kind.lower() == "content-length-range":
            return kind.lower(), "", ""
        if (
            kind.lower() in ("eq", "starts-with")
            and isinstance(name, str)
            and name[:1] == "$"
            and isinstance(value, str)
        ):
            return kind.lower(), name[1:].lower(), value
    raise _invalid("a condition is none of S3's")


def _sizes(condition: Sequence[object]) -> tuple[int, int]:
    try:
        least, most = (int(str(one)) for one in condition[1:])
    except ValueError:
        raise _invalid("content-length-range is not two numbers") from None
    return least, most


def _invalid(why: str) -> S3Error:
    return S3Error("InvalidPolicyDocument", f"Invalid Policy: {why}.", status=400)


def _against(why: str) -> S3Error:
    return S3Error("AccessDenied", f"Invalid according to Policy: {why}")
