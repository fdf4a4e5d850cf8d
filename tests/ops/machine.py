"""A Debian machine of its own under systemd-nspawn: real systemd, a network of its own, nothing of it left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "ops"
PACKAGES = "systemd,systemd-sysv,python3,python3-venv,ca-certificates,g++,libpython3-dev"
START_S = 120.0
# systemd halts on this signal.
HALT = signal.SIGRTMIN + 4


def missing_tools(*programs: tuple[str, str]) -> str:
    """Why a test cannot run here; empty where it can. programs: (name, how to get it)."""
    if os.geteuid() != 0:
        return "needs root"
    return "; ".join(f"`{name}` is not installed: {how}" for name, how in programs if not shutil.which(name))


def base_root() -> Path:
    """A bookworm root, made once and kept in build/."""
    root = BUILD / "bookworm"
    if not root.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        fresh = BUILD / "bookworm.new"
        shutil.rmtree(fresh, ignore_errors=True)
        command = ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(fresh)]
        subprocess.run(command, check=True, capture_output=True, timeout=900)
        fresh.rename(root)
    return root


@contextlib.contextmanager
def layered(lower: Path, folder: Path) -> Iterator[Path]:
    """A writable view of a root that stays as it is."""
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(parents=True)
    options = f"lowerdir={lower},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(folder / "root")], check=True)
    try:
        yield folder / "root"
    finally:
        subprocess.run(["umount", str(folder / "root")], check=True)


def enter(root: Path, *command: str, binds: dict[Path, str], timeout_s: float = 600.0) -> str:
    """Run a program in a root that is not booted, and return what it says."""
    mounts = [f"--bind-ro={source}:{target}" for source, target in binds.items()]
    nspawn = ["systemd-nspawn", "--quiet", "-D", str(root), "--register=no", "--keep-unit", "--pipe"]
    done = subprocess.run(
        [*nspawn, "--private-network", *mounts, *command],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Machine:
    """A root, booted for the length of a block."""

    def __init__(self, root: Path, log: Path) -> None:
        self._root = root
        self._log = log
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def __enter__(self) -> Self:
        command = ["systemd-nspawn", "--quiet", "--boot", "-D", str(self._root), "--register=no", "--keep-unit"]
        with self._log.open("wb") as log:
            self._nspawn = subprocess.Popen(
                [*command, "--private-network", "--console=read-only"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._leader = self._wait_for_leader()
            self.run("systemctl", "is-system-running", "--wait", check=False, timeout_s=START_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._leader, HALT)
        self._end()

    def _end(self) -> None:
        assert self._nspawn is not None
        try:
            self._nspawn.wait(timeout=60)
        except subprocess.TimeoutExpired:
            # It takes what runs inside with it.
            self._nspawn.kill()
            self._nspawn.wait()

    def _wait_for_leader(self) -> int:
        assert self._nspawn is not None
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children")
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._nspawn.poll() is None:
            found = children.read_text().split()
            if found and (Path(f"/proc/{found[0]}/root") / "run/systemd/private").exists():
                return int(found[0])
            time.sleep(0.1)
        raise AssertionError(f"the machine did not boot:\n{self._log.read_text(errors='replace')[-4000:]}")

    def run(self, *command: str, check: bool = True, timeout_s: float = 120.0) -> str:
        """Run a program of the machine; what it says on stdout."""
        done = self._enter(["--all"], command, timeout_s)
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def in_its_network(self, *arguments: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run our own Python, with what it has installed, on the machine's loopback."""
        return self._enter(["--net"], (sys.executable, *arguments), timeout_s)

    def _enter(self, spaces: list[str], command: tuple[str, ...], timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", "--target", str(self._leader), *spaces, "--", *command],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd="/",
            env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": str(ROOT)},
        )

    def show(self, unit: str, *properties: str) -> list[str]:
        """Properties of a unit, in the order asked for."""
        text = self.run("systemctl", "show", unit, f"--property={','.join(properties)}")
        values = dict(line.split("=", 1) for line in text.splitlines())
        return [values[name] for name in properties]

    def journal(self, unit: str) -> str:
        """What a unit logged."""
        return self.run("journalctl", f"--unit={unit}", "--output=cat", "--no-pager")

    def wait_for(self, unit: str, state: str, within_s: float = 90.0) -> None:
        """Wait until a unit is in a state."""
        deadline = time.monotonic() + within_s
        while (found := self.show(unit, "ActiveState")) != [state]:
            assert time.monotonic() < deadline, f"{unit} is {found}, not {state}:\n{self.journal(unit)}"
            time.sleep(0.2)
