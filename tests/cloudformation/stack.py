"""What rules look at, and where they are kept. A rule yields what it finds wrong.

cfn-lint and checkov know neither world-open ports, public bucket policies, plain disks in launch templates nor a missing
TLS-only rule; and nobody else knows what a delta's base needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Resources = dict[str, Any]
Rule = Callable[["Stack"], Iterator[str]]
RULES: dict[str, Rule] = {}


@dataclass(frozen=True, slots=True)
class Stack:
    """resources: resolved. parameters: as given."""

    resources: Resources
    parameters: dict[str, str]

    def of(self, kind: str) -> dict[str, Any]:
        """Properties by name."""
        return {n: one.get("Properties", {}) for n, one in self.resources.items() if one["Type"] == f"AWS::{kind}"}

    def user_data(self) -> str:
        return "\n".join(
            str(one["LaunchTemplateData"].get("UserData", "")) for one in self.of("EC2::LaunchTemplate").values()
        )

    def permissions(self) -> Iterator[dict[str, Any]]:
        """Statements of what the machines' role may do."""
        for role in self.of("IAM::Role").values():
            for policy in role.get("Policies", []):
                yield from policy["PolicyDocument"]["Statement"]
        for policy in self.of("IAM::Policy").values():
            yield from policy["PolicyDocument"]["Statement"]

    def bucket_policy(self) -> Iterator[dict[str, Any]]:
        for policy in self.of("S3::BucketPolicy").values():
            yield from policy["PolicyDocument"]["Statement"]


def rule(check: Rule) -> Rule:
    RULES[check.__name__] = check
    return check


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def is_everyone(principal: Any) -> bool:
    return principal == "*" or (isinstance(principal, dict) and "*" in listed(principal.get("AWS")))
