"""The template against cfn-lint, the operator's document, the units and the settings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from s4weights.proxy.config import load_settings
from s4weights.proxy.watch.embedded_metrics import DIMENSION, NAMESPACE, UNITS
from tests.cloudformation.rules import GRACE_S, Stack, metrics_of
from tests.cloudformation.template import FILE, REGION, ROOT, Resolver, parameter_sets, template

DOCUMENT = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
TEMPLATE = template()
STACK = Stack(Resolver(TEMPLATE, {"ImageId": "ami-0123456789abcdef0"}).resources(), {})


@pytest.mark.slow
def test_cfn_lint_finds_nothing_strictly():
    options = ["-r", "us-east-1", "-r", "us-west-2", "-e", "-c", "I", "-x", "E3012:strict=true"]
    command = [Path(sys.executable).parent / "cfn-lint", *options, "--non-zero-exit-code", "informational", "-t", FILE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_cloudformation_takes_it_as_it_is():
    assert len(FILE.read_bytes()) <= 51_200
    assert not re.search(r"^\s*<<:|: [&*][a-z]+$", FILE.read_text(), re.MULTILINE)


def test_parameters_are_described_and_bounded():
    for name, about in TEMPLATE["Parameters"].items():
        assert len(about["Description"]) > 30, name
        bounded = {"AllowedPattern", "AllowedValues", "MinValue"} & about.keys()
        assert bounded or about["Type"] in ("AWS::EC2::Image::Id", "CommaDelimitedList"), name
        assert ("AllowedPattern" in about) == ("ConstraintDescription" in about), name
    grouped = TEMPLATE["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    assert sorted(one for group in grouped for one in group["Parameters"]) == sorted(TEMPLATE["Parameters"])


def test_the_document_sizes_every_instance_that_may_be_chosen():
    sized = re.findall(r"^\| (g6e?\.\d*xlarge) \|", DOCUMENT, re.MULTILINE)
    assert TEMPLATE["Parameters"]["InstanceType"]["AllowedValues"] == sized


def test_every_alarm_of_the_stack_has_its_row_and_its_part_of_the_runbook():
    rows = dict(
        re.findall(
            r"^\| ([\w ,]+) \| .*\]\(#([\w-]+)\)",
            DOCUMENT.partition("## Alarms")[2].partition("## Runbook")[0],
            re.MULTILINE,
        )
    )
    alarms = STACK.of("CloudWatch::Alarm")
    assert len(alarms) >= 7
    for alarm in alarms.values():
        name = alarm["AlarmName"].removeprefix("train ")
        assert alarm["AlarmDescription"].endswith(f" docs/operations.md#{rows[name]}")
    assert {alarm["AlarmName"].removeprefix("train ") for alarm in alarms.values()} == rows.keys()


def test_every_metric_that_is_reported_is_on_the_dashboard_or_in_an_alarm_and_in_the_document():
    [dashboard] = STACK.of("CloudWatch::Dashboard").values()
    widgets = json.loads(re.sub(r"\$\{(\w+)\.Arn\}", r"\1", dashboard["DashboardBody"]))["widgets"]
    shown = {
        tuple(metric[:4])
        for one in widgets
        for metric in one["properties"].get("metrics", [])
        if isinstance(metric[0], str)
    }
    assert {(namespace, dimension, stack) for namespace, _, dimension, stack in shown} == {
        (NAMESPACE, DIMENSION, "train")
    }
    assert {metric for _, metric, _, _ in shown} == UNITS.keys()
    assert set(widgets[-1]["properties"]["alarms"]) == STACK.of("CloudWatch::Alarm").keys()
    for alarm in STACK.of("CloudWatch::Alarm").values():
        assert {metric for _, metric in metrics_of(alarm)} <= UNITS.keys()
    for name in UNITS:
        assert re.search(rf"^\| `{name}` \|", DOCUMENT, re.MULTILINE), name


def test_the_grace_covers_the_units_start():
    unit = (ROOT / "packer/systemd/s4weights.service").read_text()
    start_s = int(re.findall(r"^TimeoutStartSec=(\d+)$", unit, re.MULTILINE)[0])
    least = TEMPLATE["Parameters"]["GracePeriodSeconds"]["MinValue"]
    assert least >= GRACE_S >= 2 * start_s


@pytest.mark.parametrize("parameters", parameter_sets(), ids=lambda one: "-".join(sorted(one)))
def test_the_settings_in_the_user_data_are_settings(parameters):
    script = Stack(Resolver(TEMPLATE, parameters).resources(), parameters).user_data()
    environment = dict(re.findall(r"^(S4W_\w+)=(.*)$", script, re.MULTILINE))
    settings = load_settings({}, environment).settings
    assert settings.upstream == f"s3://{REGION}"
    assert settings.entitlement == ("ami" if "ProductCode" in parameters else "off")
