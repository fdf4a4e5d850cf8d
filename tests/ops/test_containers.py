"""Container files by their schemas and by rules of our own; the CPU image is built, run and used."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from s4weights.proxy.config import load_settings
from tests.ops.machine import BUILD, ROOT, base_root, missing_tools
from tests.servers import free_port

DOCKER = ROOT / "docker"
BIN = Path(sys.executable).parent
MANIFESTS = sorted((DOCKER / "kubernetes").glob("*.yaml"))
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_hadolint_finds_nothing():
    done = run(BIN / "hadolint", "-c", DOCKER / "hadolint.yaml", DOCKER / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_compose_keeps_its_schema():
    done = run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yaml")
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((DOCKER / "compose.yaml").read_text())


def test_compose_locks_the_proxy_in_and_shows_it_to_this_machine_only(compose):
    for name in ("proxy", "gpu"):
        service = compose["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["ulimits"]["memlock"] == -1
        # As long as the proxy may take: the drain, and the aborts after it.
        assert int(service["stop_grace_period"].removesuffix("s")) >= 30 + 15
    assert compose["services"]["gpu"]["profiles"] == ["gpu"]
    assert "profiles" not in compose["services"]["proxy"]


def test_every_image_that_others_make_is_pinned_by_its_digest(compose):
    assert DIGEST.search(compose["services"]["bucket"]["image"])
    text = (DOCKER / "Dockerfile").read_text()
    [base] = re.findall(r"^ARG BASE=(.*)$", text, re.MULTILINE)
    assert DIGEST.search(base)
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE))
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) <= {"${BASE}", *stages}


def environments() -> Iterator[tuple[str, dict[str, str]]]:
    """Every environment that a file of ours gives the proxy."""
    for name, service in yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"].items():
        if "environment" in service:
            yield f"compose {name}", service["environment"]
    for path in MANIFESTS:
        for manifest in yaml.safe_load_all(path.read_text()):
            pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
            for container in pod.get("initContainers", []) + pod.get("containers", []):
                yield (
                    f"{path.name} {container['name']}",
                    {one["name"]: one.get("value", "from a secret") for one in container.get("env", [])},
                )
    lines = (ROOT / "packer/systemd/s4weights.env").read_text().splitlines()
    yield "s4weights.env", dict(line.split("=", 1) for line in lines if line and line[0] != "#")


@pytest.mark.parametrize(
    ("name", "environment"), list(environments()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_settings_in_our_files_are_settings(name, environment):
    ours = {key: value for key, value in environment.items() if key.startswith("S4W_")}
    if ours.get("S4W_ENGINE") == "gpu":
        del ours["S4W_ENGINE"]
    load_settings({}, ours, require_upstream=False)


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_keep_the_schema_of_kubernetes(path, version):
    for manifest in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_lock_the_proxy_in(path):
    [pod] = [
        one["spec"]["template"]["spec"]
        for one in yaml.safe_load_all(path.read_text())
        if "template" in one.get("spec", {})
    ]
    [proxy] = [one for one in pod.get("initContainers", []) + pod["containers"] if one["name"] == "s4weights"]
    locked = proxy["securityContext"]
    assert (locked["runAsNonRoot"], locked["runAsUser"], locked["readOnlyRootFilesystem"]) == (True, 10001, True)
    assert (locked["allowPrivilegeEscalation"], locked["capabilities"]) == (False, {"drop": ["ALL"]})
    assert {proxy[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")} == {
        "/readyz",
        "/healthz",
    }
    assert proxy["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert pod["terminationGracePeriodSeconds"] >= 30 + 15
    assert pod["automountServiceAccountToken"] is False
    assert "limits" in proxy["resources"]


def test_the_image_holds_what_the_package_needs_and_nothing_else():
    kept = {
        line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    assert kept == {
        "LICENSE",
        "README.md",
        "codec",
        "native",
        "packer/image/sbom.py",
        "proxy",
        "pyproject.toml",
        "src",
        "tests/golden/v1",
    }
    assert all((ROOT / name).exists() for name in kept)


def test_the_bill_of_materials_keeps_the_schema_of_cyclonedx(tmp_path):
    done = run(sys.executable, ROOT / "packer/image/sbom.py", tmp_path / "made" / "sbom.json")
    assert done.returncode == 0, done.stderr
    assert_bill(tmp_path / "made" / "sbom.json")


def assert_bill(path: Path) -> None:
    text = path.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    names = {one["name"]: one["purl"] for one in json.loads(text)["components"]}
    assert names["s4weights"].startswith("pkg:pypi/s4weights@")
    assert {"numpy", "aiohttp", "botocore"} <= names.keys()
    if shutil.which("dpkg-query"):
        assert names["libc6"].startswith("pkg:deb/debian/libc6@")


TOOLS = (("buildah", "apt-get install buildah"), ("mmdebstrap", "apt-get install mmdebstrap"))
REASON = missing_tools(*TOOLS)
ROUND_TRIP = textwrap.dedent("""
    import sys, time, urllib.request, boto3, numpy
    from tests.proxy.objects.conftest import safetensors
    port, health = sys.argv[1:]
    deadline = time.monotonic() + 60
    while True:
        try:
            assert urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=5).read() == b"ready\\n"
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.3)
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                          aws_access_key_id="x", aws_secret_access_key="x")
    client.create_bucket(Bucket="training")
    body = safetensors(numpy.random.default_rng(0).normal(0, 0.02, 4 << 20))
    client.put_object(Bucket="training", Key="step-1.safetensors", Body=body)
    assert client.get_object(Bucket="training", Key="step-1.safetensors")["Body"].read() == body
""")


def buildah(*arguments: str, timeout_s: float = 1500) -> subprocess.CompletedProcess[str]:
    """No daemon, no kernel feature: files in a folder, chroot for isolation."""
    storage = BUILD / "containers"
    environment = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot", "TMPDIR": str(BUILD)}
    command = ["buildah", "--root", str(storage / "root"), "--runroot", str(storage / "run"), *arguments]
    return run(*command, env=environment, timeout=timeout_s, cwd=ROOT)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The CPU image on a bookworm of our own, since no registry can be reached here."""
    shutil.rmtree(BUILD / "containers", ignore_errors=True)
    made = buildah("from", "--name", "base", "scratch")
    assert made.returncode == 0, made.stderr
    for step in (("copy", "base", str(base_root()), "/"), ("commit", "base", "localhost/base"), ("rm", "base")):
        made = buildah(*step)
        assert made.returncode == 0, made.stderr
    # The build's pip trusts what this machine's does.
    volumes = [
        f"--volume={path}:{path}:ro"
        for path in ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
        if Path(path).exists()
    ]
    command = ["bud", "--format", "docker", "--pull-never", "--build-arg", "BASE=localhost/base", *volumes]
    made = buildah(*command, "-f", "docker/Dockerfile", "-t", "s4weights", ".")
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr[-4000:]
    yield "s4weights"
    buildah("rm", "--all")
    shutil.rmtree(BUILD / "containers", ignore_errors=True)


@pytest.mark.ops
@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_the_cpu_image_is_built_runs_as_nobody_and_serves(image, tmp_path):
    about = json.loads(buildah("inspect", "--type", "image", image).stdout)["Docker"]["config"]
    assert about["User"] == "10001:10001"
    assert about["Healthcheck"]["Test"][0] == "CMD"
    assert buildah("from", "--name", "running", "--pull-never", image).returncode == 0
    port, health = free_port(), free_port()
    settings = {
        "S4W_UPSTREAM": "/var/lib/s4weights/buckets",
        "S4W_LISTEN": f"127.0.0.1:{port}",
        "S4W_HEALTH": f"127.0.0.1:{health}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    flags = [f"--env={name}={value}" for name, value in settings.items()]
    inside = ["run", *flags, "running", "--"]
    assert buildah(*inside, "mkdir", "/var/lib/s4weights/buckets").returncode == 0
    assert buildah(*inside, "id", "-u").stdout == "10001\n"
    found = buildah(*inside, "sh", "-c", "find / -xdev -perm -4000 -path '/opt/*'; which pip; ls -d /src")
    assert found.stdout == ""
    [mounted] = [buildah("mount", "running").stdout.strip()]
    assert_bill(Path(mounted) / "usr/local/share/s4weights/sbom.cdx.json")
    tested = buildah(*inside, "/opt/s4weights/bin/s4weights", "selftest", "--json")
    assert json.loads(tested.stdout)["ok"], tested.stdout + tested.stderr
    environment = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
    storage = BUILD / "containers"
    command = ["buildah", "--root", str(storage / "root"), "--runroot", str(storage / "run"), *inside]
    with (tmp_path / "log").open("wb") as log:
        serving = subprocess.Popen(
            [*command, *about["Entrypoint"], *about["Cmd"]],
            env=environment,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            start_new_session=True,
        )
    try:
        done = run(
            sys.executable,
            "-c",
            ROUND_TRIP,
            str(port),
            str(health),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd="/",
        )
        assert done.returncode == 0, done.stderr + (tmp_path / "log").read_text()
        stored = Path(mounted) / "var/lib/s4weights/buckets/training/step-1.safetensors"
        assert stored.stat().st_size < 0.8 * (8 << 20)
        assert stored.stat().st_uid == 10001
        probe = about["Healthcheck"]["Test"][1:]
        probe[-1] = probe[-1].replace(":8080/", f":{health}/")
        assert buildah(*inside, *probe).returncode == 0
    finally:
        os.killpg(serving.pid, 15)
        serving.wait(timeout=60)
