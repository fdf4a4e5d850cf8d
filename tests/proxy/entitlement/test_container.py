"""Mode `container`: each answer of RegisterUsage, and each thing that is none, before a real `serve`."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import time

import jwt
import pytest

from tests.proxy.entitlement.conftest import CODE
from tests.proxy.entitlement.keys import private_pem, public_pem, rsa_key
from tests.proxy.entitlement.stubs import DROP, Handler, Metadata, Metering, fault, serving

REGION = "eu-central-1"
INSTANCE = {"/latest/meta-data/placement/region": REGION}
TASK = {"/v4/1234/task": json.dumps({"TaskARN": f"arn:aws:ecs:{REGION}:111122223333:task/cluster/1234"})}


def claims(fields, **changed):
    """What the service signs."""
    names = {"productCode": "ProductCode", "nonce": "Nonce", "publicKeyVersion": "PublicKeyVersion"}
    return {one: fields[name] for one, name in names.items()} | {"iat": int(time.time())} | changed


def signed(payload, key="product", algorithm="PS256"):
    return jwt.encode(payload, private_pem(rsa_key(key)), algorithm=algorithm)


def answered(token):
    return 200, json.dumps({"Signature": token, "PublicKeyRotationTimestamp": 1.7e9}).encode()


def entitled(fields, **changed):
    return answered(signed(claims(fields, **changed)))


def by_hand(header, payload, signature):
    """A token that no library makes."""
    head, body = (base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in (header, payload))
    mark = base64.urlsafe_b64encode(signature(head + b"." + body)).rstrip(b"=")
    return (head + b"." + body + b"." + mark).decode()


def unsigned(fields):
    return answered(by_hand({"alg": "none", "typ": "JWT"}, claims(fields), lambda _: b""))


def with_the_public_key_as_secret(fields):
    secret = public_pem(rsa_key("product"))
    mark = lambda text: hmac.new(secret, text, hashlib.sha256).digest()  # noqa: E731
    return answered(by_hand({"alg": "HS256", "typ": "JWT"}, claims(fields), mark))


@pytest.fixture
def begin(start, files, tmp_path):
    """Start the service before a metering service that gives these answers; -> (service, metering)."""
    with contextlib.ExitStack() as stack:

        def run(*answers, pages=INSTANCE, **variables):
            metering = Metering(*answers)
            proxy = stack.enter_context(metering.serving(tmp_path, REGION))
            address = stack.enter_context(Metadata(dict(pages)).serving())
            variables = {name: value.replace("METADATA", address) for name, value in variables.items()}
            service = start(
                *(address,),
                HTTPS_PROXY=proxy,
                S4W_ENTITLEMENT="container",
                S4W_PRODUCT_KEY_FILE=str(files.product_key),
                **variables,
            )
            return service, metering

        yield run


def test_serves_once_the_service_says_so_and_asks_with_the_platforms_region(begin):
    # Users set these for training; the platform's own region counts.
    service, metering = begin(entitled, AWS_REGION="us-west-2", AWS_DEFAULT_REGION="us-west-2")
    service.assert_serves()
    assert metering.hosts == [f"metering.marketplace.{REGION}.amazonaws.com:443"]
    [asked] = metering.asked
    assert (asked["ProductCode"], asked["PublicKeyVersion"], len(asked["Nonce"])) == (CODE, 1, 64)


def test_the_region_of_an_ecs_task_comes_from_its_metadata(begin):
    service, metering = begin(entitled, pages=TASK, ECS_CONTAINER_METADATA_URI_V4="METADATA/v4/1234")
    service.assert_serves()
    assert metering.hosts == [f"metering.marketplace.{REGION}.amazonaws.com:443"]


def test_the_region_of_an_eks_pod_is_that_of_its_tokens_issuer(begin, tmp_path):
    issuer = {"iss": f"https://oidc.eks.{REGION}.amazonaws.com/id/ABC"}
    (tmp_path / "pod-token").write_text(jwt.encode(issuer, "k" * 32, algorithm="HS256"))
    service, _ = begin(entitled, pages={})
    service.assert_serves()


@pytest.mark.parametrize("first", ["ThrottlingException", "InternalServiceErrorException", "dropped", "503"])
def test_is_asked_again_where_another_answer_may_come(begin, first):
    faults = {"dropped": DROP, "503": (503, b"<html>busy</html>")}
    passing = faults.get(first) or fault(first, 500 if "Internal" in first else 400)
    service, metering = begin(passing, passing, entitled, S4W_ENTITLEMENT_RETRY_S="30")
    service.assert_serves()
    assert len(metering.asked) == 3
    assert len({one["Nonce"] for one in metering.asked}) == 3


@pytest.mark.parametrize(
    "code",
    [
        "CustomerNotEntitledException",
        "DisabledApiException",
        "InvalidProductCodeException",
        "InvalidPublicKeyVersionException",
        "InvalidRegionException",
        "PlatformNotSupportedException",
    ],
)
def test_a_refusal_is_final(begin, code):
    service, metering = begin(fault(code), S4W_ENTITLEMENT_RETRY_S="30")
    service.assert_refused(f"RegisterUsage in {REGION}: {code}: as told: {code}", 77)
    assert len(metering.asked) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, b"<html>Sign in to the network</html>"), "expected a signature, found none"),
        ((200, b""), "expected a signature, found none"),
        ((200, b'{"PublicKeyRotationTimestamp": 1}'), "expected a signature, found none"),
        ((200, b'{"Signature": ""}'), "expected a signature, found none"),
        (answered("no.token.atall"), "expected PS256 by the product's key"),
        (lambda fields: answered(signed(claims(fields), key="another")), "Signature verification failed"),
        (lambda fields: answered(signed(claims(fields), algorithm="RS256")), "alg"),
        (unsigned, "alg"),
        (with_the_public_key_as_secret, "alg"),
        (lambda fields: entitled(fields, nonce="0" * 64), "nonce: expected"),
        (lambda fields: entitled(fields, productCode="another"), f"productCode: expected '{CODE}', found 'another'"),
        (lambda fields: entitled(fields, publicKeyVersion=2), "publicKeyVersion: expected '1', found '2'"),
        (lambda fields: answered(signed({"iat": 1})), "productCode: expected"),
        (lambda fields: entitled(fields, exp=1), "expired"),
    ],
    ids=[
        *(
            "html",
            "nothing",
            "no signature",
            "empty signature",
            "no token",
            "another key",
            "another algorithm",
            "alg none",
        ),
        *(
            "HS256 with the public key",
            "another nonce",
            "another product",
            "another key version",
            "no claims",
            "expired",
        ),
    ],
)
def test_an_answer_that_is_not_the_services_opens_nothing(begin, answer, why):
    service, metering = begin(answer, S4W_ENTITLEMENT_RETRY_S="30")
    service.assert_refused(why, 77)
    assert len(metering.asked) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (fault("ThrottlingException"), "ThrottlingException"),
        (fault("InternalServiceErrorException", 500), "InternalServiceErrorException"),
        (fault("AccessDeniedException"), "AccessDeniedException"),
        (DROP, f"RegisterUsage in {REGION}: "),
    ],
    ids=["throttled", "internal", "not allowed to ask", "dropped"],
)
def test_without_an_answer_nothing_opens_and_a_supervisor_may_begin_again(begin, answer, why):
    service, _ = begin(answer)
    service.assert_refused(why, 1)


def test_without_a_region_of_the_platform_none_is_taken_from_users(begin):
    service, metering = begin(entitled, pages={}, AWS_REGION=REGION)
    service.assert_refused("/latest/meta-data/placement/region: expected 200, found 404", 1)
    assert metering.hosts == []


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_MARKETPLACE_METERING", "AWS_CONFIG_FILE"])
def test_an_endpoint_that_users_configure_does_not_answer_for_the_service(begin, tmp_path, variable):
    hits = []

    def answer(_, body):
        hits.append(body)
        return entitled(json.loads(body))

    with serving(type("Trap", (Handler,), {"answer": staticmethod(answer)})) as trap:
        (tmp_path / "config").write_text(f"[default]\nendpoint_url = {trap}\n")
        value = str(tmp_path / "config") if variable == "AWS_CONFIG_FILE" else trap
        service, metering = begin(fault("CustomerNotEntitledException"), **{variable: value})
        service.assert_refused("CustomerNotEntitledException", 77)
    assert (len(metering.asked), hits) == (1, [])
