"""The stack's user data on a booted machine, as cloud-init runs it: up to /readyz, and a checkpoint there and back."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from tests.cloudformation.rules import Stack
from tests.cloudformation.template import IMAGE, REGION, Resolver, template
from tests.ops.machine import ROOT, Machine, layered
from tests.proxy.entitlement.keys import certificate, envelope
from tests.proxy.entitlement.stubs import server_context

pytestmark = [pytest.mark.ops, pytest.mark.slow, pytest.mark.timeout(1800)]

CODE = "1abc2defghijklm3nopqrs4tu"
INSTANCE = "i-0123456789abcdef0"
BUCKET = "train-bucket"
GROUP = "/s4weights/train"
HOSTS = (
    *("localhost", f"s3.{REGION}.amazonaws.com", f"{BUCKET}.s3.{REGION}.amazonaws.com"),
    *(f"logs.{REGION}.amazonaws.com", f"autoscaling.{REGION}.amazonaws.com"),
)
ROLE = {"Code": "Success", "AccessKeyId": "ASIATEST", "SecretAccessKey": "secret", "Token": "token",
        "Expiration": "2099-01-01T00:00:00Z", "LastUpdated": "2026-01-01T00:00:00Z"}  # fmt: skip
CLIENT = textwrap.dedent(f"""
    import sys, json, boto3
    def client(service):
        return boto3.client(service, endpoint_url="https://localhost", region_name="{REGION}", verify=sys.argv[1],
                            aws_access_key_id="ASIATEST", aws_secret_access_key="secret", aws_session_token="token")
""")
MAKE = CLIENT + textwrap.dedent(f"""
    client("s3").create_bucket(Bucket="{BUCKET}", CreateBucketConfiguration={{"LocationConstraint": "{REGION}"}})
    client("logs").create_log_group(logGroupName="{GROUP}")
""")
# What login shells are told, and the machine's role.
TRAIN = textwrap.dedent(f"""
    import boto3, numpy, os, sys
    from tests.proxy.objects.conftest import safetensors
    s3 = boto3.client("s3", endpoint_url=sys.argv[2], region_name="{REGION}")
    body = safetensors(numpy.random.default_rng(0).normal(0, 0.02, 2 << 20))
    s3.put_object(Bucket=sys.argv[1], Key="step-1.safetensors", Body=body)
    assert s3.get_object(Bucket=sys.argv[1], Key="step-1.safetensors")["Body"].read() == body
    print(len(body))
""")
LOOK = CLIENT + textwrap.dedent(f"""
    print(client("s3").head_object(Bucket="{BUCKET}", Key="step-1.safetensors")["ContentLength"])
    events = client("logs").get_log_events(logGroupName="{GROUP}", logStreamName="{INSTANCE}")["events"]
    print(events[-1]["message"])
""")


def script(**parameters: str) -> str:
    """The user data, with the ids that CloudFormation would give."""
    stack = Stack(Resolver(template(), {"ImageId": IMAGE, **parameters}).resources(), parameters)
    text = stack.user_data().replace("${Bucket}", BUCKET).replace("${LogGroup}", GROUP)
    assert "${" not in text
    return text


def pages(**document: Any) -> dict[str, str]:
    """What the metadata service of a machine from a sold image says."""
    signed = {"instanceId": INSTANCE, "marketplaceProductCodes": [CODE], "region": REGION} | document
    security = "/latest/meta-data/iam/security-credentials/"
    return {
        "/latest/meta-data/instance-id": INSTANCE,
        "/latest/meta-data/placement/region": REGION,
        "/latest/dynamic/instance-identity/rsa2048": envelope(json.dumps(signed).encode()),
        security: "machines",
        f"{security}machines": json.dumps(ROLE),
    }


class Stand:
    """A machine with AWS on its loopback. ca: what to trust, on this side."""

    def __init__(self, machine: Machine, ca: Path) -> None:
        self.machine, self.ca = machine, ca

    def python(self, text: str, *arguments: str) -> str:
        done = self.machine.in_its_network("-c", text, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_user_data(self, text: str, *, check: bool = True) -> None:
        self.machine.run("sh", "-c", 'printf %s "$1" >/root/user-data && chmod 700 /root/user-data', "sh", text)
        self.machine.run("/root/user-data", check=check, timeout_s=300)


@pytest.fixture
def stand(installed_root: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stand]:
    server_context(tmp_path, *HOSTS)
    ca = tmp_path / "ca.pem"
    (tmp_path / "pages.json").write_text(json.dumps(request.param))
    with layered(installed_root, tmp_path / "machine") as root:
        (root / "etc/hosts").write_text(f"127.0.0.1 {' '.join(HOSTS)}\n")
        (root / "etc/aws-ca.pem").write_bytes(ca.read_bytes())
        share = root / "usr/local/share/s4weights"
        share.mkdir(parents=True)
        (share / "aws-certificates.pem").write_bytes(certificate("aws").public_bytes(Encoding.PEM))
        for unit in ("s4weights", "s4weights-watch"):
            folder = root / f"etc/systemd/system/{unit}.service.d"
            folder.mkdir(parents=True)
            trusted = "AWS_CA_BUNDLE=/etc/aws-ca.pem SSL_CERT_FILE=/etc/aws-ca.pem"
            (folder / "90-test.conf").write_text(f"[Service]\nEnvironment={trusted}\n")
        with Machine(root, tmp_path / "console") as machine, contextlib.ExitStack() as stack:
            enter = ["nsenter", "--target", str(machine._leader), "--net", "--"]
            subprocess.run([*enter, "ip", "address", "add", "169.254.169.254/32", "dev", "lo"], check=True)
            command = [sys.executable, str(Path(__file__).parent / "stand_ins.py"), str(tmp_path / "pages.json")]
            aws = subprocess.Popen(
                [*enter, *command, str(ca), str(tmp_path / "tls.key")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
                env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            )  # fmt: skip
            stack.callback(aws.communicate, timeout=60)
            assert aws.stdout is not None
            assert aws.stdout.readline() == "ready\n"
            stand = Stand(machine, ca)
            stand.python(MAKE, str(ca))
            yield stand


@pytest.mark.parametrize("stand", [pages()], indirect=True, ids=["its own identity"])
def test_the_user_data_of_a_sold_image_leads_to_a_service_that_is_ready_and_told_of(stand):
    stand.run_user_data(script(ProductCode=CODE))
    machine = stand.machine
    assert machine.show("s4weights", "ActiveState", "UnitFileState", "NRestarts") == ["active", "enabled", "0"]
    assert machine.show("s4weights-watch", "ActiveState", "UnitFileState", "User") == ["active", "enabled", "s4weights"]
    ready = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/readyz', timeout=20).read().decode())"
    assert stand.python(ready).strip() == "ready"
    shell = machine.run("bash", "-lc", "echo $AWS_ENDPOINT_URL_S3 $S4WEIGHTS_BUCKET")
    endpoint, bucket = shell.split()
    assert bucket == BUCKET
    logical = int(stand.python(TRAIN, bucket, endpoint))
    machine.run("systemctl", "restart", "s4weights-watch")
    machine.run("sleep", "5")
    stored, event = stand.python(LOOK, str(stand.ca)).splitlines()
    assert 0.5 * logical < int(stored) < 0.9 * logical
    told = json.loads(event)
    assert (told["Ready"], told["Instance"], told["Stack"], told["Why"]) == (1, INSTANCE, "train", "ready")
    assert machine.run("stat", "--format=%a", "/etc/s4weights/s4weights.env").strip() == "600"
    assert "entitled to" in machine.journal("s4weights")


@pytest.mark.parametrize("stand", [pages(instanceId="i-0fedcba9876543210")], indirect=True, ids=["another's"])
def test_a_copy_of_a_sold_image_opens_nothing_and_is_not_tried_again(stand):
    stand.run_user_data(script(ProductCode=CODE), check=False)
    machine = stand.machine
    machine.wait_for("s4weights", "failed")
    assert machine.show("s4weights", "ExecMainStatus", "NRestarts") == ["77", "0"]
    log = machine.journal("s4weights")
    assert "found that of i-0fedcba9876543210" in log
    assert "S3 on" not in log
    # What watches runs, and says so.
    assert machine.show("s4weights-watch", "ActiveState") == ["active"]


@pytest.mark.parametrize("stand", [pages()], indirect=True, ids=["its own identity"])
def test_the_user_data_of_an_image_of_ones_own_asks_nobody(stand):
    stand.run_user_data(script())
    assert stand.machine.show("s4weights", "ActiveState") == ["active"]
    assert not re.search("entitled", stand.machine.journal("s4weights"))
