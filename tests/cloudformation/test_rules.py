"""The template keeps every rule with every choice of parameters, and each mutation of it breaks exactly one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.cloudformation.rules import RULES, Stack
from tests.cloudformation.template import Resolver, parameter_sets, template

TEMPLATE = template()
SETS = parameter_sets()


def broken(text: dict[str, Any]) -> dict[str, list[str]]:
    """What each rule finds, over all sets of parameters."""
    found: dict[str, list[str]] = {}
    for parameters in SETS:
        stack = Stack(Resolver(text, parameters).resources(), parameters)
        for name, check in RULES.items():
            found.setdefault(name, []).extend(check(stack))
    return {name: findings for name, findings in found.items() if findings}


def test_the_template_keeps_every_rule():
    assert len(SETS) == 32
    assert broken(TEMPLATE) == {}


def properties(resources: Any, name: str) -> Any:
    return resources[name]["Properties"]


def data(resources: Any) -> Any:
    return properties(resources, "LaunchTemplate")["LaunchTemplateData"]


def statements(resources: Any, name: str = "BucketPolicy") -> Any:
    return properties(resources, name)["PolicyDocument"]["Statement"]


def user_data(change: Callable[[str], str]) -> Callable[[Any], None]:
    def mutate(resources: Any) -> None:
        script = data(resources)["UserData"]["Fn::Base64"]["Fn::Sub"]
        changed = change(script[0])
        assert changed != script[0]
        script[0] = changed

    return mutate


def lifecycle(**rule: Any) -> Callable[[Any], None]:
    return lambda r: properties(r, "Bucket")["LifecycleConfiguration"]["Rules"].append({"Status": "Enabled", **rule})


def ingress(**fields: Any) -> Callable[[Any], None]:
    one = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, **fields}
    return lambda r: properties(r, "MachineGroup").update(SecurityGroupIngress=[one])


def allow(action: str, resource: Any) -> Callable[[Any], None]:
    one = {"Sid": "More", "Effect": "Allow", "Action": action, "Resource": resource}
    return lambda r: statements(r, "ReportAccess").append(one)


def without(name: str, key: str) -> Callable[[Any], None]:
    return lambda r: properties(r, name).pop(key)


def to_sid(sid: str, change: Callable[[Any], Any]) -> Callable[[Any], None]:
    return lambda r: change(next(one for one in statements(r) if one["Sid"] == sid))


def drop_sid(sid: str) -> Callable[[Any], None]:
    return lambda r: statements(r).remove(next(one for one in statements(r) if one["Sid"] == sid))


BUCKET = {"Fn::GetAtt": ["Bucket", "Arn"]}
OBJECTS = {"Fn::Sub": "${Bucket.Arn}/*"}
EVERYONE = {"Sid": "Public", "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": OBJECTS}
MUTATIONS: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("ssh from everywhere", "no_port_is_open_to_the_world", ingress(CidrIp="0.0.0.0/0")),
    ("the endpoint to everywhere, IPv6", "no_port_is_open_to_the_world", ingress(CidrIpv6="::/0", FromPort=9000, ToPort=9000)),
    ("a rule beside its group", "no_port_is_open_to_the_world",
     lambda r: r.update(Open={"Type": "AWS::EC2::SecurityGroupIngress",
                              "Properties": {"GroupId": {"Ref": "MachineGroup"}, "IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}})),
    ("readers from everywhere", "nobody_is_let_in_by_the_bucket_policy", lambda r: statements(r).append(EVERYONE)),
    ("readers from every account", "nobody_is_let_in_by_the_bucket_policy",
     lambda r: statements(r).append(EVERYONE | {"Principal": {"AWS": ["*"]}})),
    ("no encryption", "bucket_is_encrypted", without("Bucket", "BucketEncryption")),
    ("S3's key where one is given", "bucket_is_encrypted",
     lambda r: properties(r, "Bucket")["BucketEncryption"]["ServerSideEncryptionConfiguration"][0].update(
         ServerSideEncryptionByDefault={"SSEAlgorithm": "AES256"})),
    ("one block less", "public_access_is_blocked",
     lambda r: properties(r, "Bucket")["PublicAccessBlockConfiguration"].pop("RestrictPublicBuckets")),
    ("objects of writers", "bucket_owner_owns",
     lambda r: properties(r, "Bucket")["OwnershipControls"]["Rules"][0].update(ObjectOwnership="ObjectWriter")),
    ("no versions", "versions_are_kept", without("Bucket", "VersioningConfiguration")),
    ("old versions expire", "nothing_expires_or_moves", lifecycle(NoncurrentVersionExpiration={"NoncurrentDays": 30})),
    ("our folder expires", "nothing_expires_or_moves", lifecycle(Prefix=".s4weights/", ExpirationInDays=30)),
    ("to Glacier", "nothing_expires_or_moves", lifecycle(Transitions=[{"StorageClass": "GLACIER", "TransitionInDays": 30}])),
    ("old versions to Glacier", "nothing_expires_or_moves",
     lifecycle(NoncurrentVersionTransitions=[{"StorageClass": "GLACIER", "TransitionInDays": 30}])),
    ("uploads stay for ever", "incomplete_uploads_end", without("Bucket", "LifecycleConfiguration")),
    ("the rule is off", "incomplete_uploads_end",
     lambda r: properties(r, "Bucket")["LifecycleConfiguration"]["Rules"][0].update(Status="Disabled")),
    ("the bucket goes", "data_stays_when_the_stack_goes", lambda r: r["Bucket"].pop("DeletionPolicy")),
    ("the bucket is replaced", "data_stays_when_the_stack_goes", lambda r: r["Bucket"].update(UpdateReplacePolicy="Delete")),
    ("plain HTTP", "tls_only", drop_sid("TlsOnly")),
    ("plain HTTP for objects", "tls_only", to_sid("TlsOnly", lambda one: one.update(Resource=[BUCKET]))),
    ("others delete", "only_the_endpoint_deletes", drop_sid("DeletesThroughTheEndpointAlone")),
    ("others delete versions", "only_the_endpoint_deletes",
     to_sid("DeletesThroughTheEndpointAlone", lambda one: one.update(Action="s3:DeleteObject"))),
    ("the account deletes", "only_the_endpoint_deletes",
     to_sid("DeletesThroughTheEndpointAlone",
            lambda one: one["Condition"]["ArnNotEquals"]["aws:PrincipalArn"].append("arn:aws:iam::111122223333:root"))),
    ("others write our folder", "only_the_endpoint_writes_its_folder", drop_sid("OwnFolder")),
    ("every S3 action", "actions_are_named", allow("s3:*", OBJECTS)),
    ("every bucket", "resources_are_named", allow("s3:GetObject", "*")),
    ("metering, which knows no resource, and S3 with it", "resources_are_named",
     lambda r: statements(r, "ReportAccess").append(
         {"Sid": "More", "Effect": "Allow", "Action": ["aws-marketplace:MeterUsage", "s3:PutObject"], "Resource": "*"})),
    ("AWS's own policy", "no_policies_of_others",
     lambda r: properties(r, "Role").update(ManagedPolicyArns=["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"])),
    ("another account takes the role", "only_machines_take_the_role",
     lambda r: properties(r, "Role")["AssumeRolePolicyDocument"]["Statement"].append(
         {"Effect": "Allow", "Principal": {"AWS": "444455556666"}, "Action": "sts:AssumeRole"})),
    ("versions are deleted unasked", "versions_are_deleted_only_where_asked_for", allow("s3:DeleteObjectVersion", OBJECTS)),
    ("a public address", "machines_have_no_public_address",
     lambda r: data(r)["NetworkInterfaces"][0].update(AssociatePublicIpAddress=True)),
    ("a subnet that gives public addresses", "machines_have_no_public_address", without("PrivateSubnetA", "MapPublicIpOnLaunch")),
    ("machines in the public subnet", "machines_lie_in_private_subnets",
     lambda r: properties(r, "Machines").update(
         VPCZoneIdentifier={"Fn::If": ["WithNat", [{"Ref": "PublicSubnet"}], properties(r, "Machines")["VPCZoneIdentifier"]]})),
    ("no way to S3", "machines_reach_what_they_call", lambda r: r.pop("S3Endpoint")),
    ("no way to the session manager", "machines_reach_what_they_call", lambda r: r.pop("SsmMessagesEndpoint")),
    ("no way to the logs", "machines_reach_what_they_call", lambda r: r.pop("LogsEndpoint")),
    ("machines that reach each other unasked", "machines_reach_each_other_only_where_asked_for",
     lambda r: r["FromEachOther"].pop("Condition")),
    ("a name that leads to the internet", "machines_reach_what_they_call",
     lambda r: properties(r, "AutoScalingEndpoint").update(PrivateDnsEnabled=False)),
    ("endpoints that let nobody in", "machines_reach_what_they_call", without("EndpointGroup", "SecurityGroupIngress")),
    ("metadata, version 1", "metadata_wants_a_token", lambda r: data(r)["MetadataOptions"].update(HttpTokens="optional")),
    ("metadata for containers", "metadata_stays_on_the_machine",
     lambda r: data(r)["MetadataOptions"].update(HttpPutResponseHopLimit=2)),
    ("a plain disk", "disks_are_encrypted", lambda r: data(r)["BlockDeviceMappings"][0]["Ebs"].update(Encrypted=False)),
    ("the image's own disks", "disks_are_encrypted", lambda r: data(r).pop("BlockDeviceMappings")),
    ("a key pair", "no_key_pairs", lambda r: data(r).update(KeyName="ops")),
    ("a secret key", "no_secrets_in_user_data", user_data(lambda s: s.replace("S4W_LOG", "S4W_SECRET_KEY=hush\nS4W_LOG", 1))),
    ("an access key", "no_secrets_in_user_data",
     user_data(lambda s: s.replace("export ", "export AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE ", 1))),
    ("open to the network", "endpoint_is_on_loopback", user_data(lambda s: s.replace("S4W_LISTEN=127.0.0.1", "S4W_LISTEN=0.0.0.0"))),
    ("health for the network", "endpoint_is_on_loopback",
     user_data(lambda s: s.replace("S4W_HEALTH=127.0.0.1", "S4W_HEALTH=0.0.0.0"))),
    ("sold, and not asked", "sold_images_ask_for_their_entitlement",
     lambda r: data(r)["UserData"]["Fn::Base64"]["Fn::Sub"][1].update(Entitlement="")),
    ("no grace", "grace_covers_the_start", without("Machines", "HealthCheckGracePeriod")),
    ("short grace", "grace_covers_the_start", lambda r: properties(r, "Machines").update(HealthCheckGracePeriod=60)),
    ("nobody watches", "health_is_told_from_the_machine", user_data(lambda s: s.replace("systemctl enable --now s4weights-watch.service\n", ""))),
    ("a balancer's health", "health_is_told_from_the_machine", lambda r: properties(r, "Machines").update(HealthCheckType="ELB")),
    ("scaled in", "training_is_not_scaled_in", without("Machines", "NewInstancesProtectedFromScaleIn")),
    ("an alarm on what nobody reports", "alarms_are_on_what_is_reported",
     lambda r: properties(r, "MemoryAlarm").update(MetricName="memory_used")),
    ("silence is well", "silence_is_an_alarm", lambda r: properties(r, "NotReadyAlarm").update(TreatMissingData="notBreaching")),
    ("an alarm that nobody hears", "alarms_tell_whoever_is_named", without("DiskAlarm", "AlarmActions")),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "mutate"), [pytest.param(*one, id=name) for name, *one in MUTATIONS])
def test_a_mutation_breaks_its_rule_and_no_other(expected, mutate):
    text = copy.deepcopy(TEMPLATE)
    mutate(text["Resources"])
    assert text != TEMPLATE
    assert set(broken(text)) == {expected}


def test_every_rule_is_broken_by_a_mutation():
    assert {rule for _, rule, _ in MUTATIONS} == RULES.keys()
