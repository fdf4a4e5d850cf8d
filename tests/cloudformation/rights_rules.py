"""What the machines' role may do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.cloudformation.stack import Stack, listed, rule

# These actions can name no resource.
# Source: https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
WITHOUT_RESOURCE = re.compile(r"ssmmessages:\w+|ec2messages:\w+|ssm:UpdateInstanceInformation|aws-marketplace:\w*Usage")


@rule
def actions_are_named(stack: Stack) -> Iterator[str]:
    for one in stack.permissions():
        for action in listed(one["Action"]):
            if one["Effect"] == "Allow" and "*" in action:
                yield f"{one.get('Sid')}: {action}"


@rule
def resources_are_named(stack: Stack) -> Iterator[str]:
    for one in stack.permissions():
        nameless = all(WITHOUT_RESOURCE.fullmatch(action) for action in listed(one["Action"]))
        if one["Effect"] == "Allow" and "*" in listed(one.get("Resource", "*")) and not nameless:
            yield f"{one.get('Sid')}: every resource"


@rule
def no_policies_of_others(stack: Stack) -> Iterator[str]:
    for name, role in stack.of("IAM::Role").items():
        if role.get("ManagedPolicyArns"):
            yield f"{name}: {role['ManagedPolicyArns']}"


@rule
def only_machines_take_the_role(stack: Stack) -> Iterator[str]:
    for name, role in stack.of("IAM::Role").items():
        for one in role["AssumeRolePolicyDocument"]["Statement"]:
            if one["Principal"] != {"Service": "ec2.amazonaws.com"}:
                yield f"{name}: {one['Principal']}"


@rule
def versions_are_deleted_only_where_asked_for(stack: Stack) -> Iterator[str]:
    may = any(
        "s3:DeleteObjectVersion" in listed(one["Action"]) for one in stack.permissions() if one["Effect"] == "Allow"
    )
    if may != (stack.parameters.get("AllowVersionDeletes") == "yes"):
        yield f"may: {may}"
