"""The image: what its template says, in which order, and that a self-test which fails gives none."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import hcl2
import pytest
from moto.server import ThreadedMotoServer

from tests.ops.machine import ROOT
from tests.ops.old_packer import old_copy, quoted

PACKER = ROOT / "packer"
TEMPLATE = PACKER / "s4weights.pkr.hcl"
BIN = Path(sys.executable).parent
SELFTEST = f"{BIN}/s4weights selftest --json"


def plain(value: Any) -> Any:
    """hcl2's tree without the quotes of its strings."""
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items() if not name.startswith("__")}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.removeprefix('"').removesuffix('"') if isinstance(value, str) else value


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return plain(hcl2.loads(TEMPLATE.read_text(encoding="utf-8")))


def steps(template: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [item for one in template["build"][0]["provisioner"] for item in one.items()]


def test_provisioners_come_in_the_order_that_keeps_a_bad_or_an_unclean_image_from_being_made(template):
    names = []
    for kind, about in steps(template):
        text = json.dumps(about)
        [name] = re.findall(r"image/(\w+\.\w+)|(install\.sh)|(cloud-init)|(wheelhouse)|(\$\{local\.here\}/\")", text)[
            :1
        ]
        names.append((kind, "".join(name)))
    assert names == [
        ("shell", "cloud-init"),
        ("file", '${local.here}/"'),
        ("file", "wheelhouse"),
        ("shell", "system.sh"),
        ("shell", "install.sh"),
        ("shell", "sbom.py"),
        ("shell", "selftest.sh"),
        ("shell", "clean.sh"),
    ]


def test_every_script_that_is_named_exists_and_ends_at_the_first_fault(template):
    named = set(re.findall(r"\$\{local\.here\}/([\w/]+\.sh)", TEMPLATE.read_text()))
    assert named == {"image/system.sh", "image/selftest.sh", "image/clean.sh"}
    for script in sorted(PACKER.rglob("*.sh")):
        assert "set -euo pipefail" in script.read_text(), script


def test_no_provisioner_may_fail_unseen(template):
    for _, about in steps(template):
        assert not {"valid_exit_codes", "only", "except", "pause_after"} & about.keys()
    assert "error-cleanup-provisioner" not in TEMPLATE.read_text()


def test_the_builder_and_the_image_are_closed(template):
    [source] = [one["amazon-ebs"]["s4weights"] for one in template["source"]]
    assert source["metadata_options"][0]["http_tokens"] == "required"
    assert source["metadata_options"][0]["http_put_response_hop_limit"] == 1
    assert source["imds_support"] == "v2.0"
    assert all(disk["encrypted"] is True for disk in source["launch_block_device_mappings"])
    # Through the session manager: no port of the builder is opened to anybody.
    assert source["ssh_interface"] == "session_manager"
    assert not {"temporary_security_group_source_cidrs", "ssh_password", "associate_public_ip_address"} & source.keys()
    assert source["ssh_clear_authorized_keys"] is True
    assert "ami_groups" not in source  # public


def test_the_base_the_system_and_the_region_can_be_chosen(template):
    variables = {name for one in template["variable"] for name in one}
    assert {"base_ami", "os", "region", "python", "instance_type", "kms_key_id"} <= variables
    assert "description" in next(iter(template["variable"][0].values()))


@pytest.mark.parametrize("script", sorted(PACKER.rglob("*.sh")), ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script):
    done = subprocess.run([BIN / "shellcheck", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture
def ec2() -> Iterator[tuple[str, Any]]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    # Its accounts outlive a server of the same process.
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST"), timeout=20).close()
    yield (
        endpoint,
        boto3.client(
            "ec2", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
        ),
    )
    server.stop()


def build(folder: Path, endpoint: str, client: Any, selftest: str) -> subprocess.CompletedProcess[str]:
    commands = {"image/selftest.sh": selftest}
    (folder / "s4weights.pkr.hcl").write_text(old_copy(TEMPLATE, commands, endpoint))
    base = client.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    command = [
        "packer",
        "build",
        "-color=false",
        f"-var=base_ami={base}",
        "-var=wheelhouse=wheels",
        "-var=instance_type=t3.micro",
    ]
    environment = {
        **os.environ,
        "CHECKPOINT_DISABLE": "1",
        "PACKER_CONFIG_DIR": str(folder),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return subprocess.run(
        [*command, "s4weights.pkr.hcl"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def own_images(client: Any) -> list[dict[str, Any]]:
    return [one for one in client.describe_images()["Images"] if one["Name"].startswith("s4weights-")]


def machines(client: Any) -> list[str]:
    found = client.describe_instances()["Reservations"]
    return [one["State"]["Name"] for reservation in found for one in reservation["Instances"]]


needs_packer = pytest.mark.skipif(
    not shutil.which("packer"), reason="`packer` is not installed: apt-get install packer"
)


@pytest.mark.ops
@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_packer
@pytest.mark.parametrize(
    ("selftest", "makes_an_image"),
    [(f"{SELFTEST} --engine reference", True), (f"{SELFTEST} --require-gpu", False)],
    ids=["bit-exact", "no GPU"],
)
def test_a_whole_build_makes_an_image_only_where_the_self_test_passes(ec2, tmp_path, selftest, makes_an_image):
    endpoint, client = ec2
    done = build(tmp_path, endpoint, client, selftest)
    assert (done.returncode == 0) is makes_an_image, done.stdout + done.stderr
    images = own_images(client)
    assert len(images) == makes_an_image
    assert machines(client) == ["terminated"]
    ran = (tmp_path / "steps").read_text().split()
    assert ran == [
        "cloud-init-status",
        "system.sh",
        "install.sh",
        "sbom.py",
        "selftest.sh",
        *["clean.sh"] * makes_an_image,
    ]
    if makes_an_image:
        assert f'"artifact_id": "us-east-1:{images[0]["ImageId"]}"' in (tmp_path / "s4weights-image.json").read_text()
        assert '"ok": true' in done.stdout
    else:
        assert "the GPU's engine does not run" in done.stdout
        assert not (tmp_path / "s4weights-image.json").exists()


@pytest.mark.ops
@needs_packer
def test_the_template_is_formatted_and_valid(tmp_path):
    done = subprocess.run(["packer", "fmt", "-check", "-diff", TEMPLATE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (tmp_path / "s4weights.pkr.hcl").write_text(old_copy(TEMPLATE, {}, "http://127.0.0.1:1"))
    command = ["packer", "validate", "-var=base_ami=ami-1", "-var=wheelhouse=wheels", "s4weights.pkr.hcl"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_copy_for_the_old_packer_quotes_what_it_runs():
    assert quoted('a "b" \\') == '"a \\"b\\" \\\\"'
