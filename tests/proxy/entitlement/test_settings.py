"""Settings that contradict each other, and files that are not what they should be, end with 78."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from s4weights.codec.errors import ConfigError
from s4weights.proxy.config import Settings
from s4weights.proxy.entitlement.signed_document import load_certificates
from s4weights.proxy.entitlement.usage_token import ProductKey
from tests.proxy.entitlement.conftest import CODE
from tests.proxy.entitlement.keys import certificate, public_pem, rsa_key


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"product_code": CODE}, "found off and"),
        ({"entitlement": "ami", "identity_certificates_file": "f"}, "found ami and ''"),
        ({"entitlement": "ami", "product_code": CODE}, "identity_certificates_file: expected a file"),
        ({"entitlement": "container", "product_code": CODE}, "product_key_file: expected a file"),
        ({"entitlement": "on", "product_code": CODE}, "entitlement: expected off, container, ami, found 'on'"),
        ({"product_key_version": 0}, "product_key_version: expected at least 1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, why):
    with pytest.raises(ConfigError, match=why):
        Settings(upstream=".", **settings)


def test_files_that_are_no_keys_are_named(tmp_path):
    file = tmp_path / "file"
    for content, why in (
        (None, "No such file"),
        (b"text", "in PEM, found something else"),
        (public_pem(rsa_key("short")), "at least 2048 bits"),
    ):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ConfigError, match=f"product_key_file {file}: .*{why}"):
            ProductKey.load(file, 1)
    file.unlink()
    for content, why in (
        (None, "No such file"),
        (b"text", "in PEM, found something else"),
        (certificate("short"), "RSA-2048 certificates alone"),
    ):
        if content is not None:
            file.write_bytes(content if isinstance(content, bytes) else content.public_bytes(Encoding.PEM))
        with pytest.raises(ConfigError, match=f"identity_certificates_file {file}: .*{why}"):
            load_certificates(file)


def test_a_key_that_cannot_be_read_ends_serve_at_once(tmp_path):
    (tmp_path / "buckets").mkdir()
    variables = {
        "S4W_ENTITLEMENT": "container",
        "S4W_PRODUCT_CODE": CODE,
        "S4W_PRODUCT_KEY_FILE": str(tmp_path / "none"),
    }
    command = [sys.executable, "-m", "s4weights.cli", "serve", "--upstream", str(tmp_path / "buckets")]
    ports = ["--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--state", str(tmp_path / "state")]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", **variables}
    done = subprocess.run([*command, *ports], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (78, "")
    assert f"product_key_file {tmp_path / 'none'}: No such file" in done.stderr
