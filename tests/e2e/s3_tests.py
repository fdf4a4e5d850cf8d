"""ceph/s3-tests straight against SeaweedFS or moto and through the proxy before it: what passes straight must pass through.

    git clone https://github.com/ceph/s3-tests CHECKOUT
    python -m venv CHECKOUT/venv && CHECKOUT/venv/bin/pip install -r CHECKOUT/requirements.txt pytest-timeout pytest-xdist
    .venv/bin/python -m tests.e2e.s3_tests CHECKOUT

Prints every test that passes straight alone, and ends with 1 where one of them stands in no row of docs/s3.md.
"""

from __future__ import annotations

import argparse
import configparser
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.e2e.bodies import ROOT
from tests.e2e.proxy_process import ProxyProcess
from tests.servers import Moto, SeaweedFS

# What no S3-compatible server behind a proxy is asked here: other services, and calls of Ceph alone.
LEFT_OUT: Final = [
    "lifecycle",
    "lifecycle_expiration",
    "lifecycle_transition",
    "cloud_transition",
    "cloud_restore",
    "bucket_logging",
    "s3website",
    "s3website_routing_rules",
    "s3website_redirect_location",
    "s3select",
    "sns",
    "iam_account",
    "iam_cross_account",
    "iam_tenant",
    "iam_user",
    "iam_role",
    "test_of_sts",
    "webidentity_test",
    "appendobject",
]
FILES: Final = ("s3tests/functional/test_s3.py", "s3tests/functional/test_headers.py")
USERS: Final = {
    name: (f"AKIAS3TESTS{name.upper().replace(' ', '')}", f"s3-tests-secret-of-{name.replace(' ', '-')}")
    for name in ("s3 main", "s3 alt", "s3 tenant", "iam", "iam root", "iam alt root")
}
_TEST_S: Final = 240
_EXCEPTION: Final = re.compile(r"^\| ((?:`test_\w+`(?:, )?)+) \|", re.MULTILINE)


class Server(SeaweedFS):
    """SeaweedFS that knows the users of the suite."""

    def users(self) -> dict[str, tuple[str, str]]:
        return {**super().users(), **USERS}


SERVERS: Final[dict[str, type[Server] | type[Moto]]] = {"seaweedfs": Server, "moto": Moto}


def exceptions() -> set[str]:
    """The tests that docs/s3.md names, each beside the rule that it meets."""
    rows = _EXCEPTION.findall((ROOT / "docs" / "s3.md").read_text())
    return {name for row in rows for name in re.findall(r"test_\w+", row)}


def write_configuration(path: Path, endpoint: str) -> None:
    host, _, port = endpoint.removeprefix("http://").partition(":")
    configuration = configparser.RawConfigParser()
    configuration["DEFAULT"] = {"host": host, "port": port, "is_secure": "False"}
    configuration["fixtures"] = {"bucket prefix": "s4w-{random}-"}
    for name, (access, secret) in USERS.items():
        user = name.replace(" ", "-")
        configuration[name] = {
            "access_key": access,
            "secret_key": secret,
            "user_id": user,
            "display_name": user,
            "email": f"{user}@example.com",
            "tenant": "tests",
            "api_name": "us-east-1",
        }
    with path.open("w") as file:
        configuration.write(file)


def run_suite(
    arguments: argparse.Namespace, endpoint: str, folder: Path, name: str, only: list[str] | None = None
) -> dict[str, str]:
    """Outcome by test: passed, failed, error, skipped."""
    write_configuration(folder / f"{name}.conf", endpoint)
    report = folder / f"{name}.xml"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "S4W_", "PYTEST_"))}
    environment |= {
        "S3TEST_CONF": str(folder / f"{name}.conf"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": str(ROOT / "tests" / "e2e"),
    }
    if only is not None:
        (folder / "only.json").write_text(json.dumps(only))
        environment["S4W_S3_TESTS_ONLY"] = str(folder / "only.json")
    command = [
        *(arguments.python or arguments.checkout / "venv/bin/python", "-m", "pytest", *FILES, "-q", "--tb=native"),
        *("-p", "no:cacheprovider", "-p", "s3_tests_plugin", f"--timeout={_TEST_S}", f"--junitxml={report}"),
        *("-n", str(arguments.jobs), "-m", f"not ({' or '.join(LEFT_OUT)})", "-k", arguments.select),
    ]
    started_s = time.monotonic()
    with (folder / f"{name}.out").open("wb") as output:
        subprocess.run(command, cwd=arguments.checkout, env=environment, stdout=output, stderr=output, check=False)
    outcomes = dict(read_report(report))
    counts = ", ".join(
        f"{list(outcomes.values()).count(one)} {one}" for one in ("passed", "failed", "error", "skipped")
    )
    print(f"{name}: {counts} in {time.monotonic() - started_s:.0f} s", flush=True)
    return outcomes


def read_report(path: Path) -> list[tuple[str, str]]:
    rows = []
    for case in ElementTree.parse(path).iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        outcome = {"failure": "failed"}.get(kinds[0], kinds[0]) if kinds else "passed"
        rows.append((case.get("name", ""), outcome))
    return rows


def run_straight(arguments: argparse.Namespace, server: Server | Moto, folder: Path) -> dict[str, str]:
    if arguments.baseline and arguments.baseline.exists():
        return dict(json.loads(arguments.baseline.read_text()))
    outcomes = run_suite(arguments, server.endpoint, folder, "straight")
    if arguments.baseline:
        arguments.baseline.write_text(json.dumps(outcomes, indent=1, sort_keys=True))
    return outcomes


def run_through(arguments: argparse.Namespace, server: Server | Moto, folder: Path, only: list[str]) -> dict[str, str]:
    keys = folder / "keys.toml"
    keys.write_text("".join(f'[[key]]\naccess_key = "{a}"\nsecret_key = "{s}"\n' for a, s in USERS.values()))
    keys.chmod(0o600)
    environment = {
        **server.environment(),
        "S4W_CREDENTIALS_FILE": str(keys),
        "S4W_ACCESS_KEY": "",
        "S4W_SECRET_KEY": "",
    }
    if arguments.encode_all:
        environment["S4W_TEST_ENCODE_ALL"] = "1"
    proxy = ProxyProcess(server.endpoint, folder / "state", environment)
    proxy.start()
    try:
        return run_suite(arguments, proxy.endpoint, folder, "through", only)
    finally:
        proxy.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--server", choices=SERVERS, default="seaweedfs", help="what stands for S3")
    parser.add_argument("--python", type=Path, help="of the suite's environment; default: CHECKOUT/venv")
    parser.add_argument("--encode-all", action="store_true", help="treat every body as a checkpoint")
    parser.add_argument("--baseline", type=Path, help="keep the straight run's outcomes here, and use them again")
    parser.add_argument("--folder", type=Path, help="where reports and logs stay")
    parser.add_argument("-k", dest="select", default="", help="as pytest's")
    parser.add_argument("-n", dest="jobs", type=int, default=2, help="tests at once")
    arguments = parser.parse_args()
    arguments.checkout = arguments.checkout.resolve()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="s4w-s3-tests-"))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, SERVERS[arguments.server](Path(data)) as server:
        straight = run_straight(arguments, server, folder)
        passed = sorted(name for name, outcome in straight.items() if outcome == "passed")
        through = run_through(arguments, server, folder, passed)
    known = exceptions()
    lost = sorted(
        name for name, one in through.items() if one in ("failed", "error") and straight.get(name) == "passed"
    )
    for name in lost:
        print(f"{'known' if name in known else 'LOST '} {name}")
    for name in sorted(known & {name for name, one in through.items() if one == "passed"}):
        print(f"stale {name}: passes through; take it out of docs/s3.md")
    print(f"reports: {folder}")
    return 1 if set(lost) - known else 0


if __name__ == "__main__":
    sys.exit(main())
