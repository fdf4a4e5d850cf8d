"""The service on a real systemd: boots, lives, is ended when stuck, stops cleanly, upgrades and goes."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.ops import document
from tests.ops.machine import ROOT, enter, layered

pytestmark = [pytest.mark.ops, pytest.mark.slow, pytest.mark.timeout(1800)]

ENDPOINT = "http://127.0.0.1:9000"
READ_ALL = textwrap.dedent("""
    import hashlib, boto3
    client = boto3.client("s3", endpoint_url="http://127.0.0.1:9000", region_name="us-east-1",
                          aws_access_key_id="x", aws_secret_access_key="x")
    for row in client.list_objects_v2(Bucket="training").get("Contents", []):
        body = client.get_object(Bucket="training", Key=row["Key"])["Body"].read()
        assert len(body) == row["Size"]
        print(row["Key"], hashlib.sha256(body).hexdigest())
""")
ROUND_TRIP = textwrap.dedent("""
    import boto3, numpy, urllib.request
    from tests.proxy.objects.conftest import safetensors
    client = boto3.client("s3", endpoint_url="http://127.0.0.1:9000", region_name="us-east-1",
                          aws_access_key_id="x", aws_secret_access_key="x")
    body = safetensors(numpy.random.default_rng(0).normal(0, 0.02, 2 << 20))
    client.put_object(Bucket="training", Key="a", Body=body)
    assert client.get_object(Bucket="training", Key="a")["Body"].read() == body
    for path in ("healthz", "readyz", "metrics", "status"):
        assert urllib.request.urlopen(f"http://127.0.0.1:8080/{path}", timeout=20).status == 200
""")


def python(machine, script: str) -> str:
    done = machine.in_its_network("-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout


def override(machine, *lines: str) -> None:
    """Further lines for the service's unit."""
    folder = "/etc/systemd/system/s4weights.service.d"
    text = "\n".join(["[Service]", *lines, ""])
    machine.run("sh", "-c", 'mkdir -p "$1" && printf %s "$2" > "$1/90-test.conf"', "sh", folder, text)
    machine.run("systemctl", "daemon-reload")


def test_boots_with_the_machine_and_answers(installed_root, machine):
    machine.run("systemctl", "enable", "--now", "s4weights.service")
    assert machine.show("s4weights", "ActiveState", "NRestarts", "User") == ["active", "0", "s4weights"]
    [status] = machine.show("s4weights", "StatusText")
    assert status == f"S3 on {ENDPOINT}, upstream /var/lib/s4weights/buckets"
    python(machine, ROUND_TRIP)
    stored = machine.run("stat", "--format=%s %U %a", "/var/lib/s4weights/buckets/training/a").split()
    assert 2 << 20 < int(stored[0]) < 0.8 * (4 << 20)
    assert stored[1] == "s4weights"
    assert machine.run("systemctl", "--failed", "--quiet") == ""


def test_a_process_that_hangs_is_ended_by_the_watchdog_and_begins_again(machine):
    override(machine, "WatchdogSec=3")
    machine.run("systemctl", "start", "s4weights")
    python(machine, ROUND_TRIP)
    [stuck] = machine.show("s4weights", "MainPID")
    time.sleep(7)  # two watchdogs long nothing happens to a process that is well
    assert machine.show("s4weights", "MainPID", "NRestarts") == [stuck, "0"]
    machine.run("sh", "-c", f"kill -STOP {stuck}")  # the shell's own: the root has no other
    deadline = time.monotonic() + 90
    while machine.show("s4weights", "NRestarts", "ActiveState") != ["1", "active"]:
        assert time.monotonic() < deadline, machine.journal("s4weights")
        time.sleep(0.3)
    assert "Watchdog timeout" in machine.journal("s4weights")
    assert machine.show("s4weights", "MainPID") != [stuck]
    python(machine, ROUND_TRIP)


def test_stops_cleanly_under_load_and_no_half_object_is_left(machine):
    override(machine, "Environment=S4W_DRAIN_S=4")
    machine.run("systemctl", "start", "s4weights")
    load = subprocess.Popen(
        ["nsenter", "--target", str(machine._leader), "--net", "--", sys.executable, str(Path(__file__).parent / "load.py"),
         ENDPOINT, "4"],
        stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, cwd="/",
    )  # fmt: skip
    assert load.stdout is not None
    first = load.stdout.readline()
    # A client that never ends its body, and so is cut off.
    slow = subprocess.Popen(
        ["nsenter", "--target", str(machine._leader), "--net", "--", sys.executable, "-c", textwrap.dedent("""
            import socket, numpy
            from tests.proxy.objects.conftest import safetensors
            body = safetensors(numpy.random.default_rng(0).normal(0, 0.02, 24 << 20))
            wire = socket.create_connection(("127.0.0.1", 9000))
            wire.sendall(b"PUT /training/half HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body))
            wire.sendall(body[:len(body) // 2])
            print("sent", flush=True)
            wire.recv(1000)
        """)],
        stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, cwd="/",
    )  # fmt: skip
    assert slow.stdout is not None
    assert slow.stdout.readline() == "sent\n"
    started_s = time.monotonic()
    machine.run("systemctl", "stop", "s4weights", timeout_s=120)
    assert time.monotonic() - started_s < 60
    rest = load.communicate(timeout=60)[0]
    slow.communicate(timeout=60)
    acknowledged = dict(line.split() for line in (first + rest).splitlines())
    assert machine.show("s4weights", "Result", "ActiveState", "ExecMainStatus") == ["success", "inactive", "0"]
    assert machine.run("find", "/var/lib/s4weights/uploads", "-type", "f") == ""
    assert machine.run("find", "/var/lib/s4weights/buckets/.s4weights/uploads", "-type", "f") == ""
    machine.run("systemctl", "start", "s4weights")
    found = dict(line.split() for line in python(machine, READ_ALL).splitlines())
    assert "half" not in found
    assert acknowledged.items() <= found.items()
    # An object whose acknowledgement was lost on the way may be there, and is then whole: READ_ALL has read it.
    assert set(found) - set(acknowledged) <= {f"client-{n}/step-{count(acknowledged, n)}.safetensors" for n in range(4)}


def count(acknowledged: dict[str, str], number: int) -> int:
    return sum(key.startswith(f"client-{number}/") for key in acknowledged)


def test_the_documents_commands_run_on_the_machine(machine):
    [release] = machine.run("ls", "/opt/s4weights.releases").split()
    ran = [command for command in document.commands() if command in document.ON_A_MACHINE]
    assert sorted(ran) == sorted(document.ON_A_MACHINE)
    for command in ran:
        machine.run("sh", "-c", command.removeprefix("sudo ").replace("RELEASE", release), timeout_s=900)
    assert machine.show("s4weights", "ActiveState") == ["active"]
    python(machine, ROUND_TRIP)


def test_a_setting_that_cannot_be_used_is_not_tried_again(machine):
    override(machine, "Environment=S4W_ENGINE=abacus")
    machine.run("systemctl", "start", "s4weights", check=False)
    machine.wait_for("s4weights", "failed")
    assert machine.show("s4weights", "ExecMainStatus", "NRestarts") == ["78", "0"]
    assert "found 'abacus'" in machine.journal("s4weights")


def test_the_self_test_passes_in_the_sandbox_and_fails_where_a_gpu_is_required_and_missing(machine):
    machine.run("systemctl", "start", "s4weights-selftest", timeout_s=900)
    report = json.loads(
        [line for line in machine.journal("s4weights-selftest").splitlines() if line.startswith("{")][-1]
    )
    assert report["ok"], report
    machine.run("sh", "-c", "echo SELFTEST_FLAGS=--require-gpu > /etc/s4weights/selftest.env")
    machine.run("systemctl", "start", "s4weights-selftest", check=False, timeout_s=900)
    assert machine.show("s4weights-selftest", "ActiveState", "ExecMainStatus") == ["failed", "1"]
    report = json.loads(
        [line for line in machine.journal("s4weights-selftest").splitlines() if line.startswith("{")][-1]
    )
    assert report["failures"][0].startswith("the GPU's engine does not run: ")


def test_an_upgrade_keeps_settings_and_the_release_before_it_and_removal_leaves_nothing(
    installed_root, wheels, tmp_path
):
    with layered(installed_root, tmp_path / "upgrade") as root:
        binds = {ROOT / "packer": "/src/packer", wheels: "/src/wheels"}
        (root / "etc/s4weights/s4weights.env").write_text("S4W_UPSTREAM=s3://eu-west-1\n")
        [old] = (root / "opt/s4weights.releases").iterdir()
        for _ in range(2):
            enter(root, "/src/packer/install.sh", "/src/wheels", binds=binds)
        assert (root / "etc/s4weights/s4weights.env").read_text() == "S4W_UPSTREAM=s3://eu-west-1\n"
        releases = {one.name for one in (root / "opt/s4weights.releases").iterdir()}
        assert len(releases) == 2
        assert old.name not in releases
        enter(root, "/src/packer/uninstall.sh", "--purge", binds=binds)
        left = [str(one) for one in root.rglob("*s4weights*") if not one.is_relative_to(root / "var/log")]
        assert left == []


def test_a_failed_install_leaves_the_running_release(installed_root, tmp_path):
    with layered(installed_root, tmp_path / "failed") as root:
        (tmp_path / "wheels").mkdir()
        (tmp_path / "wheels/s4weights-9.9.9-py3-none-any.whl").write_bytes(b"not a wheel")
        before = (root / "opt/s4weights").readlink()
        with pytest.raises(AssertionError):
            enter(
                root,
                "/src/packer/install.sh",
                "/src/wheels",
                binds={ROOT / "packer": "/src/packer", tmp_path / "wheels": "/src/wheels"},
            )
        assert (root / "opt/s4weights").readlink() == before
        assert [f"/opt/s4weights.releases/{one.name}" for one in (root / "opt/s4weights.releases").iterdir()] == [
            str(before)
        ]


def test_the_units_verify_without_a_word_and_score_at_most_one_and_a_half(installed_root, tmp_path):
    with layered(installed_root, tmp_path / "verify") as root:
        # Where there is a GPU the driver brings it.
        (root / "usr/bin/nvidia-modprobe").write_text("#!/bin/sh\n")
        (root / "usr/bin/nvidia-modprobe").chmod(0o755)
        units = [
            "s4weights.service",
            "s4weights-selftest.service",
            "s4weights-watch.service",
            "s4weights-nvidia.service",
        ]
        done = subprocess.run(
            ["systemd-analyze", "verify", f"--root={root}", *units], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        for kind in ("without a GPU", "with a GPU"):
            if kind == "with a GPU":
                for unit in units[:3]:
                    (root / f"usr/local/lib/systemd/system/{unit}.d/20-memory.conf").unlink()
            for unit in units[:3]:
                done = subprocess.run(
                    ["systemd-analyze", "security", "--offline=true", f"--root={root}", "--no-pager", "--threshold=15", unit],
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
                assert done.returncode == 0, done.stdout
                assert done.stderr == ""
