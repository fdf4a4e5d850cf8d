"""The units agree with the program: exit codes, times, paths, one sandbox for service and self-test."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict

import pytest

from s4weights.cli import main
from s4weights.proxy.config import Settings
from s4weights.proxy.limits import CLOSE_S
from tests.ops.machine import ROOT

SYSTEMD = ROOT / "packer/systemd"
UNITS = sorted(path.name for path in SYSTEMD.glob("*.service"))


def settings(name: str) -> dict[str, list[str]]:
    """By name, all values in their order; sections apart are not needed here."""
    found = defaultdict(list)
    for line in (SYSTEMD / name).read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def seconds(value: str) -> float:
    return float(value.removesuffix("s"))


def test_the_stop_is_given_longer_than_it_may_take():
    service = settings("s4weights.service")
    assert seconds(service["TimeoutStopSec"][0]) > Settings(upstream=".").drain_s + CLOSE_S


def test_a_setting_at_fault_ends_with_a_code_that_is_not_tried_again(capsys, monkeypatch):
    monkeypatch.setenv("S4W_ENGINE", "abacus")
    code = main(["serve", "--upstream", "."])
    assert "abacus" in capsys.readouterr().err
    assert str(code) in settings("s4weights.service")["RestartPreventExitStatus"][0].split()


def test_the_service_tells_systemd_itself_and_is_watched():
    service = settings("s4weights.service")
    assert (service["Type"], service["NotifyAccess"], service["Restart"]) == (["notify"], ["main"], ["on-failure"])
    assert 10 <= seconds(service["WatchdogSec"][0]) <= 60


def test_what_the_units_name_is_where_the_installer_puts_it():
    installer = (ROOT / "packer/install.sh").read_text()
    for name in UNITS:
        for command in settings(name)["ExecStart"]:
            assert command.split()[0] in ("/opt/s4weights/bin/s4weights", "/usr/bin/nvidia-modprobe")
    for name in ("sandbox.conf", "memory.conf", "sysusers.conf", "s4weights.env"):
        assert f"systemd/{name}" in installer
    assert re.search(r"for unit in s4weights s4weights-selftest s4weights-watch; do", installer)
    for name in ("s4weights.service", "s4weights-selftest.service", "s4weights-watch.service"):
        # All of the sandbox is in the one file that both have.
        assert not {key for key in settings(name) if key.startswith(("Protect", "Private", "Restrict"))}
    assert {"User", "CapabilityBoundingSet", "ProtectSystem", "SystemCallFilter"} <= settings("sandbox.conf").keys()


@pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="`systemd-analyze` is not installed: apt-get install systemd"
)
@pytest.mark.parametrize("drop_ins", [["sandbox.conf"], ["sandbox.conf", "memory.conf"]], ids=["GPU", "no GPU"])
@pytest.mark.parametrize("unit", ["s4weights.service", "s4weights-selftest.service", "s4weights-watch.service"])
def test_the_sandbox_scores_at_most_one_and_a_half(tmp_path, unit, drop_ins):
    folder = tmp_path / "usr/local/lib/systemd/system"
    (folder / f"{unit}.d").mkdir(parents=True)
    shutil.copy(SYSTEMD / unit, folder)
    for name in drop_ins:
        shutil.copy(SYSTEMD / name, folder / f"{unit}.d")
    command = [
        "systemd-analyze",
        "security",
        "--offline=true",
        f"--root={tmp_path}",
        "--no-pager",
        "--threshold=15",
        unit,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    (folder / f"{unit}.d" / drop_ins[0]).unlink()
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
