"""Mode `ami`: what EC2 signed about this instance, and everything that is not that, before a real `serve`."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from cryptography.hazmat.primitives.hashes import SHA512

from s4weights.proxy.entitlement.signed_document import verified_document
from s4weights.proxy.errors import NotEntitled
from tests.proxy.entitlement.conftest import CODE
from tests.proxy.entitlement.keys import certificate, envelope
from tests.proxy.entitlement.stubs import Metadata

INSTANCE = "i-0123456789abcdef0"
RSA2048 = "/latest/dynamic/instance-identity/rsa2048"
IDENTITY = "/latest/meta-data/instance-id"


def document(**changed):
    fields = {
        "accountId": "111122223333",
        "imageId": "ami-5fb8c835",
        "instanceId": INSTANCE,
        "instanceType": "g6.xlarge",
        "marketplaceProductCodes": ["another", CODE],
        "region": "us-west-2",
    }
    return json.dumps(fields | changed, indent=2).encode()


def tampered(encoded):
    """A byte of the document inside, changed to another letter."""
    der = base64.b64decode(encoded)
    changed = der.replace(b"another", b"bnother")
    assert changed != der
    return base64.encodebytes(changed).decode()


@pytest.fixture
def begin(start, files):
    """Start the service beside a metadata service with these pages."""
    with contextlib.ExitStack() as stack:

        def run(encoded, *, instance=INSTANCE, delay_s=0.0, token_status=200, **variables):
            pages = {IDENTITY: instance}
            if encoded is not None:
                pages[RSA2048] = encoded
            metadata = Metadata(pages, delay_s, token_status)
            address = stack.enter_context(metadata.serving())
            certificates = str(files.certificates)
            return start(address, S4W_ENTITLEMENT="ami", S4W_IDENTITY_CERTIFICATES_FILE=certificates, **variables)

        yield run


@pytest.mark.parametrize("attributes", [True, False], ids=["signed attributes", "the document alone"])
def test_serves_on_an_instance_that_came_with_the_product(begin, tmp_path, attributes):
    (tmp_path / "asset-tag").write_text(f"{INSTANCE}\n")
    begin(envelope(document(), attributes=attributes)).assert_serves()


@pytest.mark.parametrize(
    ("encoded", "why"),
    [
        (lambda: envelope(document(marketplaceProductCodes=["another"])), f"expected the product code '{CODE}', found ['another']"),
        (lambda: envelope(document(marketplaceProductCodes=None)), "found none"),
        # A string that contains the code is no list that does.
        (lambda: envelope(document(marketplaceProductCodes=f"x{CODE}x")), "expected the product code"),
        (lambda: envelope(document(instanceId="i-0fedcba9876543210")), "found that of i-0fedcba9876543210"),
        (lambda: tampered(envelope(document())), "the digest of another document"),
        (lambda: tampered(envelope(document(), attributes=False)), "found none that fits"),
        (lambda: envelope(document(), signer="another"), "found none that fits"),
        (lambda: envelope(document(), digest=SHA512()), "signed with ('sha512'"),
        (lambda: envelope(b"[]"), "expected a JSON object"),
        (lambda: envelope(b"not JSON"), "expected a JSON object"),
        (lambda: base64.encodebytes(document()).decode(), "expected a PKCS #7 envelope"),
        (lambda: "<html>", "expected a PKCS #7 envelope"),
        (lambda: "", "expected a PKCS #7 envelope"),
    ],
    ids=[
        *("another product", "no product", "codes as text", "another instance", "tampered", "tampered without attributes"),
        *("another signer", "another digest", "a list", "no JSON", "only the document", "HTML", "nothing"),
    ],
)  # fmt: skip
def test_what_ec2_did_not_sign_for_this_instance_opens_nothing(begin, encoded, why):
    begin(encoded(), S4W_ENTITLEMENT_RETRY_S="30").assert_refused(why, 77)


def test_the_hypervisor_has_a_word_too(begin, tmp_path):
    # A metadata service that tells of another instance, and has that one's own document.
    (tmp_path / "asset-tag").write_text("i-0fedcba9876543210\n")
    begin(envelope(document())).assert_refused(f"found that of {INSTANCE}", 77)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"delay_s": 5.0}, "/latest/api/token: expected an answer within 2 s, found none"),
        ({"token_status": 403}, "/latest/api/token: expected 200, found 403"),
        ({"encoded": None}, f"{RSA2048}: expected 200, found 404"),
    ],
    ids=["slow", "off", "no document"],
)
def test_without_an_answer_nothing_opens_and_a_supervisor_may_begin_again(begin, options, why):
    begin(**{"encoded": envelope(document()), **options}).assert_refused(why, 1)


def test_without_a_metadata_service_nothing_opens(start, files):
    service = start("http://127.0.0.1:9", S4W_ENTITLEMENT="ami", S4W_IDENTITY_CERTIFICATES_FILE=str(files.certificates))
    service.assert_refused("http://127.0.0.1:9/latest/api/token: ", 1)


def test_what_is_not_known_yet_is_told_and_asked_again(begin):
    service = begin(envelope(document()), token_status=503, S4W_ENTITLEMENT_RETRY_S="60")
    text = service.wait_for(lambda text: text.startswith("entitlement is not known yet: "))
    assert text.endswith("expected 200, found 503")
    assert not service.is_open()
    # Whoever stops it does not wait for an answer.
    assert service.end() == 1
    assert "S3 on" not in service.log


def test_every_flipped_bit_of_an_envelope_is_refused():
    der = base64.b64decode(envelope(document()))
    keys = [certificate("aws").public_key()]
    accepted = 0
    for at in range(len(der)):
        changed = bytearray(der)
        changed[at] ^= 1 << at % 8
        with contextlib.suppress(NotEntitled):
            accepted += verified_document(base64.b64encode(changed).decode(), keys) != document()
    assert accepted == 0
