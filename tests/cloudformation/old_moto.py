"""A copy of the template for moto, less what it does not know: Fn::Cidr, bucket policies, alarms, dashboards.

It also leaves a null where AWS::NoValue stands in a list, so the choice is made of two lists instead.
"""

from __future__ import annotations

import json
from typing import Any

from tests.cloudformation.template import template

_KINDS = ("AWS::S3::BucketPolicy", "AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard")


def copy_for_moto() -> str:
    """As JSON; conditions, references and user data are the template's own."""
    text = template()
    resources = {name: one for name, one in text["Resources"].items() if one["Type"] not in _KINDS}
    resources["Machines"]["DependsOn"].remove("BucketPolicy")
    outputs = {name: one for name, one in text["Outputs"].items() if name != "DashboardUrl"}
    return json.dumps(_known(text | {"Resources": resources, "Outputs": outputs}))


def _known(node: Any) -> Any:
    if isinstance(node, list):
        for at, one in enumerate(node):
            if isinstance(one, dict) and one.keys() == {"Fn::If"} and one["Fn::If"][2] == {"Ref": "AWS::NoValue"}:
                condition, chosen, _ = one["Fn::If"]
                before, after = node[:at], node[at + 1 :]
                return {"Fn::If": [condition, _known([*before, chosen, *after]), _known(before + after)]}
        return [_known(one) for one in node]
    if not isinstance(node, dict):
        return node
    if (
        node.keys() == {"Fn::Select"}
        and isinstance(node["Fn::Select"][1], dict)
        and "Fn::Cidr" in node["Fn::Select"][1]
    ):
        return f"10.64.{node['Fn::Select'][0]}.0/24"
    if node.keys() == {"Fn::If"}:
        return {"Fn::If": [node["Fn::If"][0], *map(_known, node["Fn::If"][1:])]}
    return {key: _known(one) for key, one in node.items()}
