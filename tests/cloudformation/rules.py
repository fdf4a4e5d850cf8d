"""What a user who minds security expects of the stack, as rules over its resources. Each yields what it finds wrong.

cfn-lint and checkov know neither world-open ports, public bucket policies, plain disks in launch templates nor a missing
TLS-only rule; and nobody else knows what a delta's base needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Resources = dict[str, Any]
Rule = Callable[["Stack"], Iterator[str]]
RULES: dict[str, Rule] = {}
ROLE = "${Role.Arn}"
WORLD = {"0.0.0.0/0", "::/0"}
# These actions can name no resource.
# Source: https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
WITHOUT_RESOURCE = re.compile(r"ssmmessages:\w+|ec2messages:\w+|ssm:UpdateInstanceInformation|aws-marketplace:\w*Usage")
SERVICES = ("ssm", "ssmmessages", "ec2messages", "logs", "autoscaling")
# Of boot and self-test before the service, whose own start may take TimeoutStartSec.
GRACE_S = 600
SECRET = re.compile(r"(AKIA|ASIA)[A-Z0-9]{12,}|-----BEGIN|secret|password|token=|credential", re.IGNORECASE)


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


# Buckets


@rule
def public_access_is_blocked(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        blocks = bucket.get("PublicAccessBlockConfiguration", {})
        for one in ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"):
            if blocks.get(one) is not True:
                yield f"{name}: {one} is not true"


@rule
def bucket_is_encrypted(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        sides = bucket.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", [])
        kinds = {one.get("ServerSideEncryptionByDefault", {}).get("SSEAlgorithm") for one in sides}
        expected = "aws:kms" if stack.parameters.get("KmsKeyArn") else "AES256"
        if kinds != {expected}:
            yield f"{name}: encrypted with {kinds}"


@rule
def bucket_owner_owns(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        rules = bucket.get("OwnershipControls", {}).get("Rules", [])
        if [one.get("ObjectOwnership") for one in rules] != ["BucketOwnerEnforced"]:
            yield f"{name}: {rules}"


@rule
def versions_are_kept(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        if bucket.get("VersioningConfiguration", {}).get("Status") != "Enabled":
            yield f"{name}: not versioned"


@rule
def nothing_expires_or_moves(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        for one in bucket.get("LifecycleConfiguration", {}).get("Rules", []):
            for key in one:
                if key.startswith(("Expiration", "Noncurrent", "Transition")):
                    yield f"{name}: {one.get('Id')}: {key}"


@rule
def incomplete_uploads_end(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        rules = bucket.get("LifecycleConfiguration", {}).get("Rules", [])
        if not any("AbortIncompleteMultipartUpload" in one and one["Status"] == "Enabled" for one in rules):
            yield f"{name}: no rule aborts them"


@rule
def data_stays_when_the_stack_goes(stack: Stack) -> Iterator[str]:
    for name, one in stack.resources.items():
        if one["Type"] in ("AWS::S3::Bucket", "AWS::S3::BucketPolicy"):
            for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
                if one.get(policy) != "Retain":
                    yield f"{name}: {policy} is {one.get(policy)}"


@rule
def nobody_is_let_in_by_the_bucket_policy(stack: Stack) -> Iterator[str]:
    for one in stack.bucket_policy():
        if one["Effect"] == "Allow" and is_everyone(one.get("Principal")):
            yield f"{one.get('Sid')}: allows everyone"


@rule
def tls_only(stack: Stack) -> Iterator[str]:
    for name in stack.of("S3::Bucket"):
        arn = f"${{{name}.Arn}}"
        for one in stack.bucket_policy():
            refuses = one["Effect"] == "Deny" and is_everyone(one["Principal"]) and listed(one["Action"]) == ["s3:*"]
            if (
                refuses
                and set(listed(one["Resource"])) == {arn, f"{arn}/*"}
                and one.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
            ):
                break
        else:
            yield f"{name}: plain HTTP is not refused"


def _refused_to_others(stack: Stack, actions: set[str], resource: str) -> bool:
    trusted = {ROLE} | ({stack.parameters["AdministratorArn"]} if "AdministratorArn" in stack.parameters else set())
    for one in stack.bucket_policy():
        condition = one.get("Condition", {})
        if (
            one["Effect"] == "Deny"
            and is_everyone(one["Principal"])
            and actions <= set(listed(one["Action"]))
            and listed(one["Resource"]) == [resource]
            and condition.keys() == {"ArnNotEquals"}
            and set(listed(condition["ArnNotEquals"].get("aws:PrincipalArn"))) == trusted
        ):
            return True
    return False


@rule
def only_the_endpoint_deletes(stack: Stack) -> Iterator[str]:
    if not _refused_to_others(stack, {"s3:DeleteObject", "s3:DeleteObjectVersion"}, "${Bucket.Arn}/*"):
        yield "others may delete"


@rule
def only_the_endpoint_writes_its_folder(stack: Stack) -> Iterator[str]:
    if not _refused_to_others(stack, {"s3:PutObject"}, "${Bucket.Arn}/.s4weights/*"):
        yield "others may write below .s4weights/"


# Rights


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


# Network


@rule
def no_port_is_open_to_the_world(stack: Stack) -> Iterator[str]:
    found = [
        (name, one)
        for name, group in stack.of("EC2::SecurityGroup").items()
        for one in group.get("SecurityGroupIngress", [])
    ]
    found += stack.of("EC2::SecurityGroupIngress").items()
    for name, one in found:
        if {one.get("CidrIp"), one.get("CidrIpv6")} & WORLD:
            yield f"{name}: {one.get('FromPort')}"


@rule
def machines_have_no_public_address(stack: Stack) -> Iterator[str]:
    for name, one in stack.of("EC2::LaunchTemplate").items():
        for interface in one["LaunchTemplateData"].get("NetworkInterfaces", [{}]):
            if interface.get("AssociatePublicIpAddress") is not False:
                yield f"{name}: may get one"
    for name, subnet in stack.of("EC2::Subnet").items():
        if subnet.get("MapPublicIpOnLaunch") is not False:
            yield f"{name}: gives one"


@rule
def machines_lie_in_private_subnets(stack: Stack) -> Iterator[str]:
    tables = {one["RouteTableId"] for one in stack.of("EC2::Route").values() if "GatewayId" in one}
    public = {
        one["SubnetId"]
        for one in stack.of("EC2::SubnetRouteTableAssociation").values()
        if one["RouteTableId"] in tables
    }
    for name, group in stack.of("AutoScaling::AutoScalingGroup").items():
        if open_ones := public & set(group["VPCZoneIdentifier"]):
            yield f"{name}: {open_ones}"


@rule
def machines_reach_what_they_call(stack: Stack) -> Iterator[str]:
    if "VpcId" in stack.parameters and "RouteTableIds" not in stack.parameters:
        return
    found = {one["ServiceName"].rpartition(".")[2]: one for one in stack.of("EC2::VPCEndpoint").values()}
    if found.get("s3", {}).get("VpcEndpointType") != "Gateway" or not found["s3"].get("RouteTableIds"):
        yield "s3"
    if "VpcId" in stack.parameters or stack.parameters.get("Egress") == "nat":
        return
    machines = set(next(iter(stack.of("AutoScaling::AutoScalingGroup").values()))["VPCZoneIdentifier"])
    groups = stack.of("EC2::SecurityGroup")
    for service in (*SERVICES, *(["kms"] if "KmsKeyArn" in stack.parameters else [])):
        one = found.get(service, {})
        if not one.get("PrivateDnsEnabled") or set(one.get("SubnetIds", [])) != machines:
            yield service
            continue
        letting_in = [
            ingress
            for group in one["SecurityGroupIds"]
            for ingress in groups[group.strip("${}")].get("SecurityGroupIngress", [])
            if ingress.get("SourceSecurityGroupId") == "${MachineGroup}"
            and ingress["FromPort"] <= 443 <= ingress["ToPort"]
        ]
        if not letting_in:
            yield f"{service}: its group lets no machine in"


# Machines


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


# Alarms


def metrics_of(alarm: dict[str, Any]) -> set[tuple[str, str]]:
    """(namespace, metric) of each."""
    parts = [one["MetricStat"]["Metric"] for one in alarm.get("Metrics", []) if "MetricStat" in one]
    return {(one["Namespace"], one["MetricName"]) for one in parts or [alarm]}


@rule
def alarms_are_on_what_is_reported(stack: Stack) -> Iterator[str]:
    from s4weights.proxy.watch.embedded_metrics import NAMESPACE, UNITS

    for name, alarm in stack.of("CloudWatch::Alarm").items():
        for namespace, metric in metrics_of(alarm):
            if namespace != NAMESPACE or metric not in UNITS:
                yield f"{name}: {namespace} {metric}"


@rule
def silence_is_an_alarm(stack: Stack) -> Iterator[str]:
    ready = [one for one in stack.of("CloudWatch::Alarm").values() if one.get("MetricName") == "Ready"]
    if [one.get("TreatMissingData") for one in ready] != ["breaching"]:
        yield "no alarm on a machine that says nothing"


@rule
def alarms_tell_whoever_is_named(stack: Stack) -> Iterator[str]:
    topics = [stack.parameters["AlarmTopicArn"]] if "AlarmTopicArn" in stack.parameters else None
    for name, alarm in stack.of("CloudWatch::Alarm").items():
        if alarm.get("AlarmActions") != topics:
            yield f"{name}: {alarm.get('AlarmActions')}"
