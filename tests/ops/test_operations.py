"""The operator's document knows every error, code, metric and command."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import s4weights
from s4weights.codec.errors import S4WeightsError
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.proxy.entitlement.registration import REFUSALS
from s4weights.proxy.errors import S3_CODES
from s4weights.proxy.metrics import Metrics
from tests.codec.gpu.fake import FakeDevice
from tests.codec.samples import pack, safetensors_file
from tests.ops import document
from tests.ops.machine import ROOT

BIN = Path(sys.executable).parent


def errors() -> set[str]:
    """Every class of ours, wherever it is made."""
    for found in pkgutil.walk_packages(s4weights.__path__, "s4weights."):
        if not found.name.endswith(("__main__", "_worker")):
            try:
                importlib.import_module(found.name)
            except ImportError as error:
                # Of an extra that is not installed; nothing of ours may be missing.
                assert not (error.name or "").startswith("s4weights"), found.name
    pending, names = [S4WeightsError], set()
    while pending:
        one = pending.pop()
        if one.__module__.startswith("s4weights."):
            names.add(one.__name__)
            pending += one.__subclasses__()
    return names


def metrics() -> set[str]:
    """Names as in /metrics, a device's included, without those of when each began."""
    shown = Metrics()
    shown.watch(GpuEngine(FakeDevice()))
    found = set(re.findall(r"^# TYPE (s4weights_\w+) ", shown.render().decode(), re.MULTILINE))
    return {name for name in found if not name.endswith("_created")}


def test_the_runbook_has_every_error_of_ours():
    assert {"MissingBase", "S3Error", "UpstreamError", "ConfigError"} <= errors()
    assert errors() - document.column("### Errors", "## Removal") == set()


def test_the_runbook_has_every_code_that_is_the_servers_fault():
    servers = {code for code, (status, _) in S3_CODES.items() if status >= 500}
    assert {"InternalError", "SlowDown"} <= servers
    known = document.column("### Errors", "## Removal")
    assert servers - known == set()
    assert known - errors() - S3_CODES.keys() == {"error", "code", "---"}


def test_the_document_has_every_metric_and_alarms_on_no_other():
    known = document.column("## Alarms", "## Runbook")
    assert metrics() - known == set()
    assert {name for name in known if name.startswith("s4weights_")} - metrics() == set()
    named = set(re.findall(r"s4weights_\w+", document.TEXT.partition("## Alarms")[2].partition("## Runbook")[0]))
    assert {name.removesuffix("_count") for name in named} <= metrics()


def test_the_runbook_has_every_refusal_of_an_entitlement():
    known = document.column("### Not entitled", "### Frames that failed")
    assert {"CustomerNotEntitledException", "PlatformNotSupportedException"} <= REFUSALS
    assert REFUSALS - known == set()


def test_the_computed_columns_of_the_sizes_are_what_the_text_says():
    rows = re.findall(
        r"^\| g6e?\.\d*xlarge \| (\d+) \|.*\| ([\d.]+) \| ([\d.]+) \| (\w+) \|$", document.TEXT, re.MULTILINE
    )
    assert len(rows) == 16
    for processors, network, bound, limit in rows:
        coded, sent = 0.83 * int(processors), 1.46 * float(network)
        assert (f"{min(coded, sent):.1f}", "processors" if coded < sent else "network") == (bound, limit)


def test_every_alarm_leads_to_a_part_of_the_runbook():
    rows = re.findall(r"^\| .* \| .*\]\(#([\w-]+)\).*\|$", document.TEXT, re.MULTILINE)
    assert len(rows) >= 7
    headings = {
        line.removeprefix("### ").lower().replace(" ", "-")
        for line in re.findall("^### .*$", document.TEXT, re.MULTILINE)
    }
    assert set(rows) <= headings


def test_every_command_is_run_somewhere_or_says_why_not():
    known = {*document.ON_A_MACHINE, *document.ELSEWHERE, *document.NOT_HERE, *document.IN_A_FOLDER}
    assert set(document.commands()) == known
    for name, holds in document.ELSEWHERE.values():
        assert holds in (ROOT / "tests/ops" / name).read_text(), holds


@pytest.mark.e2e
def test_the_commands_in_a_folder_run(tmp_path, seaweedfs):
    body = safetensors_file()
    client = seaweedfs.client()
    client.create_bucket(Bucket="bucket")
    client.put_object(Bucket="bucket", Key="step-1000.safetensors", Body=pack(body)[0])
    aws = ROOT / ".venv-awscli/bin"
    if not (aws / "aws").exists():
        pytest.skip("`aws` is not installed: make .venv-awscli/installed")
    path = f"{BIN}:{aws}:{os.environ['PATH']}"
    environment = {**os.environ, **seaweedfs.environment(), "PATH": path, "STRAIGHT": seaweedfs.endpoint}
    environment.pop("AWS_ENDPOINT_URL", None)
    ran = [command for command in document.commands() if command in document.IN_A_FOLDER]
    assert sorted(ran) == sorted(document.IN_A_FOLDER)
    for command in ran:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, command + done.stdout + done.stderr
    assert (tmp_path / "step-1000.safetensors").read_bytes() == body
    assert (tmp_path / "copy").stat().st_size < len(body)
