"""The machines, what they run, and when they are replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.cloudformation.stack import Stack, listed, rule

# Of boot and self-test before the service, whose own start may take TimeoutStartSec.
GRACE_S = 600
SECRET = re.compile(r"(AKIA|ASIA)[A-Z0-9]{12,}|-----BEGIN|secret|password|token=|credential", re.IGNORECASE)


def _templates(stack: Stack) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, one in stack.of("EC2::LaunchTemplate").items():
        yield name, one["LaunchTemplateData"]


@rule
def metadata_wants_a_token(stack: Stack) -> Iterator[str]:
    for name, data in _templates(stack):
        if data.get("MetadataOptions", {}).get("HttpTokens") != "required":
            yield name


@rule
def metadata_stays_on_the_machine(stack: Stack) -> Iterator[str]:
    for name, data in _templates(stack):
        if data.get("MetadataOptions", {}).get("HttpPutResponseHopLimit") != 1:
            yield name


@rule
def disks_are_encrypted(stack: Stack) -> Iterator[str]:
    for name, data in _templates(stack):
        disks = [one.get("Ebs", {}) for one in data.get("BlockDeviceMappings", [])]
        if not disks or any(one.get("Encrypted") is not True or one.get("VolumeType") != "gp3" for one in disks):
            yield name


@rule
def no_key_pairs(stack: Stack) -> Iterator[str]:
    for name, data in _templates(stack):
        if "KeyName" in data:
            yield name


@rule
def no_secrets_in_user_data(stack: Stack) -> Iterator[str]:
    for line in stack.user_data().splitlines():
        if not line.startswith("#") and (found := SECRET.search(line)):
            yield f"{found[0]} in {line!r}"


@rule
def endpoint_is_on_loopback(stack: Stack) -> Iterator[str]:
    for name in ("S4W_LISTEN", "S4W_HEALTH"):
        if re.findall(rf"^{name}=(.*):\d+$", stack.user_data(), re.MULTILINE) != ["127.0.0.1"]:
            yield name


@rule
def sold_images_ask_for_their_entitlement(stack: Stack) -> Iterator[str]:
    code = stack.parameters.get("ProductCode", "")
    set_to = dict(re.findall(r"^S4W_(ENTITLEMENT|PRODUCT_CODE)=(.*)$", stack.user_data(), re.MULTILINE))
    if set_to != ({"ENTITLEMENT": "ami", "PRODUCT_CODE": code} if code else {}):
        yield f"{set_to}"


@rule
def grace_covers_the_start(stack: Stack) -> Iterator[str]:
    for name, group in stack.of("AutoScaling::AutoScalingGroup").items():
        if int(group.get("HealthCheckGracePeriod", 0)) < GRACE_S:
            yield f"{name}: {group.get('HealthCheckGracePeriod')} s"


@rule
def health_is_told_from_the_machine(stack: Stack) -> Iterator[str]:
    for name, group in stack.of("AutoScaling::AutoScalingGroup").items():
        if group.get("HealthCheckType") != "EC2":
            yield f"{name}: {group.get('HealthCheckType')}"
    if "systemctl enable --now s4weights-watch" not in stack.user_data():
        yield "nothing watches"
    if not any("autoscaling:SetInstanceHealth" in listed(one["Action"]) for one in stack.permissions()):
        yield "and may not tell"


@rule
def training_is_not_scaled_in(stack: Stack) -> Iterator[str]:
    for name, group in stack.of("AutoScaling::AutoScalingGroup").items():
        if group.get("NewInstancesProtectedFromScaleIn") is not True:
            yield name
