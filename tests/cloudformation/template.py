"""The stack's template, and what becomes of it with given parameters: conditions decided, functions resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from cfnlint.decode.cfn_yaml import load

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "cloudformation/train-runner.yaml"
REGION = "eu-central-1"
PSEUDO = {
    "AWS::AccountId": "111122223333",
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackName": "train",
}
IMAGE = "ami-0123456789abcdef0"
NO_VALUE = object()
_NAME = re.compile(r"\$\{([^!}]+)\}")
# What a user may choose; every combination is looked at.
_CHOICES: tuple[tuple[dict[str, str], ...], ...] = (
    ({}, {"Egress": "nat"}, {"VpcId": "vpc-01234567", "SubnetIds": "subnet-1,subnet-2", "RouteTableIds": "rtb-1"},
     {"VpcId": "vpc-01234567", "SubnetIds": "subnet-1"}),
    ({}, {"KmsKeyArn": f"arn:aws:kms:{REGION}:111122223333:key/1234"}),
    ({}, {"AllowVersionDeletes": "yes", "MachinesTalk": "yes", "AdministratorArn": "arn:aws:iam::111122223333:role/admin"}),
    ({}, {"ProductCode": "1abc2defghijklm3nopqrs4tu", "AlarmTopicArn": f"arn:aws:sns:{REGION}:111122223333:ops"}),
)  # fmt: skip


def parameter_sets() -> list[dict[str, str]]:
    return [{"ImageId": IMAGE} | {k: v for one in chosen for k, v in one.items()} for chosen in product(*_CHOICES)]


def plain(value: Any) -> Any:
    """Without the parser's own classes, so that it may be copied and changed."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, str) else value


def template() -> dict[str, Any]:
    return plain(load(str(FILE)))


class Resolver:
    """Functions of one template with one set of parameters. A resource's name stands for its id: ${Name}, ${Name.Attribute}."""

    def __init__(self, text: dict[str, Any], parameters: Mapping[str, str]) -> None:
        self._text = text
        self._parameters: dict[str, Any] = {}
        for name, about in text["Parameters"].items():
            value = parameters.get(name, about.get("Default"))
            assert value is not None, name
            self._parameters[name] = value.split(",") if about["Type"] == "CommaDelimitedList" else value
        assert not parameters.keys() - text["Parameters"].keys()

    def condition(self, name: str) -> bool:
        return bool(self.value(self._text["Conditions"][name]))

    def resources(self) -> dict[str, Any]:
        """Those that are made, with resolved properties."""
        return {
            name: self.value({key: one for key, one in about.items() if key != "Condition"})
            for name, about in self._text["Resources"].items()
            if "Condition" not in about or self.condition(about["Condition"])
        }

    def value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [one for one in map(self.value, node) if one is not NO_VALUE]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            [(name, argument)] = node.items()
            if name == "Condition" and isinstance(argument, str):
                return self.condition(argument)
            if name == "Ref":
                return self._ref(argument)
            if name.startswith("Fn::"):
                return getattr(self, f"_{name.removeprefix('Fn::').lower()}")(argument)
        return {key: one for key, one in ((key, self.value(one)) for key, one in node.items()) if one is not NO_VALUE}

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in PSEUDO:
            return PSEUDO[name]
        if name in self._parameters:
            return self._parameters[name]
        assert name in self._text["Resources"], name
        return f"${{{name}}}"

    def _getatt(self, argument: Any) -> str:
        parts = argument.split(".") if isinstance(argument, str) else argument
        assert parts[0] in self._text["Resources"], parts
        return f"${{{'.'.join(parts)}}}"

    def _sub(self, argument: Any) -> str:
        text, own = (argument, {}) if isinstance(argument, str) else argument
        names = {name: self.value(one) for name, one in own.items()}

        def replaced(match: re.Match[str]) -> str:
            name = match[1]
            if name in names:
                return str(names[name])
            return str(self._getatt(name) if "." in name else self._ref(name))

        return _NAME.sub(replaced, text)

    def _if(self, argument: Any) -> Any:
        return self.value(argument[1] if self.condition(argument[0]) else argument[2])

    def _equals(self, argument: Any) -> bool:
        left, right = map(self.value, argument)
        return bool(left == right)

    def _and(self, argument: Any) -> bool:
        return all(map(self.value, argument))

    def _or(self, argument: Any) -> bool:
        return any(map(self.value, argument))

    def _not(self, argument: Any) -> bool:
        return not self.value(argument[0])

    def _join(self, argument: Any) -> str:
        return str(argument[0]).join(map(str, self.value(argument[1])))

    def _base64(self, argument: Any) -> Any:
        return self.value(argument)

    def _getazs(self, _: Any) -> list[str]:
        return [f"{REGION}{letter}" for letter in "abc"]

    def _cidr(self, argument: Any) -> list[str]:
        block, count, _ = map(self.value, argument)
        return [f"{block}#{number}" for number in range(int(count))]

    def _select(self, argument: Any) -> Any:
        index, values = map(self.value, argument)
        return values[int(index)]
