"""Verify that a request was signed by a key we know: in its Authorization header, or in its query (presigned)."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.query import read_query

from .canonical import (
    ALGORITHM,
    HeaderList,
    canonical_path,
    canonical_query,
    canonical_request,
    sign,
    signing_key,
    string_to_sign,
)
from .credentials import Credential, CredentialStore
from .grants import EVERYTHING, Grant

# S3's own bounds.
MAX_SKEW: Final = timedelta(minutes=15)
MAX_EXPIRES_S: Final = 604_800
UNSIGNED: Final = "UNSIGNED-PAYLOAD"

_FIELD: Final = re.compile(r"\s*(Credential|SignedHeaders|Signature)=([^,\s]+)\s*")
_SCOPE: Final = re.compile(r"(?P<key>.+)/(?P<date>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/(?P<end>[^/]+)")
_TIME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class Verified:
    """Who signed, and what the signatures of an aws-chunked body go on from. payload_hash: as the client declared it."""

    access_key: str
    scope: str
    timestamp: str
    signature: str
    signing_key: bytes
    payload_hash: str
    presigned: bool = False
    grant: Grant = EVERYTHING

    def __repr__(self) -> str:
        return f"Verified({self.access_key!r}, {self.scope!r})"


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a request says of its own signature."""

    access_key: str
    scope: str
    signed_headers: Sequence[str]
    signature: str
    timestamp: str


def verify(
    method: str,
    raw_path: str,
    raw_query: str,
    headers: HeaderList,
    credentials: CredentialStore,
    now: datetime | None = None,
) -> Verified:
    """Check a request's signature. raw_path, raw_query: as on the wire.

    Raises: S3Error AccessDenied, InvalidAccessKeyId, SignatureDoesNotMatch, RequestTimeTooSkewed, ...
    """
    now = now or datetime.now(UTC)
    authorization = _header(headers, "authorization")
    query = read_query(raw_query)
    in_query = is_presigned(query)
    if authorization is not None and in_query:
        raise S3Error("InvalidArgument", "Only one auth mechanism allowed.")
    if in_query:
        return _verify_presigned(method, raw_path, raw_query, query, headers, credentials, now)
    if authorization is None:
        if "Signature" in query and "AWSAccessKeyId" in query:
            raise S3Error("InvalidRequest", f"Signature version 2 is not supported. Please use {ALGORITHM}.")
        raise S3Error("AccessDenied")
    return _verify_header(method, raw_path, raw_query, authorization, headers, credentials, now)


def is_presigned(query: Mapping[str, str]) -> bool:
    """Whether a request is signed in its query (decoded)."""
    return "X-Amz-Algorithm" in query or "X-Amz-Signature" in query


def _verify_header(
    method: str,
    raw_path: str,
    raw_query: str,
    authorization: str,
    headers: HeaderList,
    credentials: CredentialStore,
    now: datetime,
) -> Verified:
    scheme, _, rest = authorization.partition(" ")
    _check_scheme(scheme)
    if not rest.isascii():
        raise S3Error("AuthorizationHeaderMalformed", "The Authorization header must be ASCII.")
    matches = [_FIELD.fullmatch(item) for item in rest.split(",")]
    fields = {match[1]: match[2] for match in matches if match}
    if fields.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise S3Error("AuthorizationHeaderMalformed", "Expected Credential, SignedHeaders and Signature.")
    timestamp = _header(headers, "x-amz-date") or _http_date(_header(headers, "date"))
    claim = _claim(fields["Credential"], fields["SignedHeaders"], fields["Signature"], timestamp, in_query=False)
    moment = _parse_time(timestamp)
    if abs(now - moment) > MAX_SKEW:
        raise S3Error("RequestTimeTooSkewed", RequestTime=timestamp, ServerTime=now.strftime(_TIME))
    payload_hash = _header(headers, "x-amz-content-sha256")
    if payload_hash is None:
        raise S3Error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    credential = find_credential(credentials, claim.access_key, _header(headers, "x-amz-security-token"))
    return _compare(method, raw_path, canonical_query(raw_query), headers, claim, credential, payload_hash)


def _verify_presigned(
    method: str,
    raw_path: str,
    raw_query: str,
    query: Mapping[str, str],
    headers: HeaderList,
    credentials: CredentialStore,
    now: datetime,
) -> Verified:
    _check_scheme(query.get("X-Amz-Algorithm", ""))
    names = ("X-Amz-Credential", "X-Amz-SignedHeaders", "X-Amz-Signature", "X-Amz-Date", "X-Amz-Expires")
    missing = [name for name in names if not query.get(name)]
    if missing:
        raise S3Error("AuthorizationQueryParametersError", f"Query-string authentication needs {', '.join(missing)}.")
    claim = _claim(*(query[name] for name in names[:4]), in_query=True)
    expires = query["X-Amz-Expires"]
    if not re.fullmatch("[0-9]{1,6}", expires) or int(expires) > MAX_EXPIRES_S:
        raise S3Error("AuthorizationQueryParametersError", f"X-Amz-Expires must be 0 to {MAX_EXPIRES_S} seconds.")
    moment = _parse_time(claim.timestamp)
    if moment - now > MAX_SKEW:
        raise S3Error("AccessDenied", "Request is not valid yet.")
    if now >= moment + timedelta(seconds=int(expires)):
        raise S3Error(
            "AccessDenied",
            "Request has expired.",
            Expires=(moment + timedelta(seconds=int(expires))).isoformat(),
        )
    credential = find_credential(credentials, claim.access_key, query.get("X-Amz-Security-Token"))
    payload_hash = _header(headers, "x-amz-content-sha256") or UNSIGNED
    signed_hash = payload_hash if "x-amz-content-sha256" in claim.signed_headers else UNSIGNED
    canonical = canonical_query(raw_query, without="X-Amz-Signature")
    return _compare(method, raw_path, canonical, headers, claim, credential, signed_hash, presigned=True)


def _claim(credential: str, signed_headers: str, signature: str, timestamp: str, *, in_query: bool) -> _Claim:
    code = "AuthorizationQueryParametersError" if in_query else "AuthorizationHeaderMalformed"
    access_key, scope = parse_scope(credential, timestamp, code)
    if not re.fullmatch("[0-9a-f]{64}", signature):
        raise S3Error("SignatureDoesNotMatch")
    names = signed_headers.split(";")
    if "host" not in names or any(name != name.lower() for name in names):
        raise S3Error(code, "SignedHeaders must be in lower case and contain host.")
    return _Claim(access_key, scope, names, signature, timestamp)


def parse_scope(credential: str, timestamp: str, code: str = "InvalidArgument") -> tuple[str, str]:
    """Access key and scope out of KEY/YYYYMMDD/REGION/s3/aws4_request. Raises: S3Error with the given code."""
    match = _SCOPE.fullmatch(credential)
    if match is None or match["service"] != "s3" or match["end"] != "aws4_request":
        raise S3Error(code, "Expected a credential of the form KEY/YYYYMMDD/REGION/s3/aws4_request.")
    if not timestamp.startswith(match["date"]):
        raise S3Error(code, "The date of the credential is not that of the request.")
    return match["key"], "/".join([match["date"], match["region"], match["service"], match["end"]])


def find_credential(credentials: CredentialStore, access_key: str, token: str | None) -> Credential:
    """Raises: S3Error InvalidAccessKeyId, InvalidToken."""
    credential = credentials.find(access_key)
    if credential is None:
        raise S3Error("InvalidAccessKeyId", AWSAccessKeyId=access_key)
    expected = (credential.session_token or "").encode()
    if not hmac.compare_digest(expected, (token or "").encode(errors="surrogateescape")):
        raise S3Error("InvalidToken", "The provided token is malformed or otherwise invalid.", status=400)
    return credential


def _compare(
    method: str,
    raw_path: str,
    query: str,
    headers: HeaderList,
    claim: _Claim,
    credential: Credential,
    payload_hash: str,
    *,
    presigned: bool = False,
) -> Verified:
    unsigned = sorted(
        {name.lower() for name, _ in headers if name.lower().startswith("x-amz-")} - set(claim.signed_headers)
    )
    if unsigned and not (presigned and unsigned == ["x-amz-content-sha256"]):
        raise S3Error(
            "AccessDenied",
            f"There were headers present in the request which were not signed: {', '.join(unsigned)}",
        )
    key = signing_key(credential.secret_key, claim.scope)
    # Most clients encode the path by S3's rule and sign that; some sign it as they send it.
    for path in {canonical_path(raw_path), raw_path}:
        request = canonical_request(method, path, query, headers, claim.signed_headers, payload_hash)
        expected = sign(key, string_to_sign(claim.timestamp, claim.scope, request))
        if hmac.compare_digest(expected, claim.signature):
            break
    else:
        raise S3Error("SignatureDoesNotMatch", AWSAccessKeyId=claim.access_key)
    return Verified(
        claim.access_key,
        claim.scope,
        claim.timestamp,
        claim.signature,
        key,
        payload_hash,
        presigned,
        credential.grant,
    )


def _check_scheme(scheme: str) -> None:
    if scheme == ALGORITHM:
        return
    if scheme == "AWS4-ECDSA-P256-SHA256":
        raise S3Error("NotImplemented", f"SigV4A (multi-region keys) is not supported. Please use {ALGORITHM}.")
    raise S3Error("InvalidRequest", f"The authorization mechanism is not supported. Please use {ALGORITHM}.")


def _parse_time(timestamp: str) -> datetime:
    try:
        return datetime.strptime(timestamp, _TIME).replace(tzinfo=UTC)
    except ValueError:
        raise S3Error("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header.") from None


def _http_date(text: str | None) -> str:
    try:
        return datetime.strptime(text or "", "%a, %d %b %Y %H:%M:%S GMT").strftime(_TIME)
    except ValueError:
        raise S3Error("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header.") from None


def _header(headers: HeaderList, name: str) -> str | None:
    for known, value in headers:
        if known.lower() == name:
            return value
    return None
