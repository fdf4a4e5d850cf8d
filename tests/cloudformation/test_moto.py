"""moto makes the stack: references lead somewhere, conditions decide what is made, and the user data is what we resolve."""

from __future__ import annotations

import base64
import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.cloudformation.old_moto import copy_for_moto
from tests.cloudformation.template import IMAGE, REGION, Resolver, template

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

CODE = "1abc2defghijklm3nopqrs4tu"
KEY = f"arn:aws:kms:{REGION}:111122223333:key/1234"


class Account:
    """Clients of moto's one account, and a network that was there before."""

    def __init__(self) -> None:
        self.ec2 = boto3.client("ec2", region_name=REGION)
        self.stacks = boto3.client("cloudformation", region_name=REGION)
        self.fleet = boto3.client("autoscaling", region_name=REGION)
        self.iam = boto3.client("iam", region_name=REGION)
        self.image = self.ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        self.vpc = self.ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
        self.subnet = self.ec2.create_subnet(VpcId=self.vpc, CidrBlock="10.9.1.0/24")["Subnet"]["SubnetId"]
        tables = self.ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [self.vpc]}])
        self.table = tables["RouteTables"][0]["RouteTableId"]

    def make(self, name: str, **parameters: str) -> tuple[dict[str, str], dict[str, str]]:
        """(ids by name, outputs) of a new stack."""
        given = {"ImageId": self.image, "InstanceCount": "0", **parameters}
        self.stacks.create_stack(
            StackName=name,
            TemplateBody=copy_for_moto(),
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
            Capabilities=["CAPABILITY_IAM"],
        )
        [about] = self.stacks.describe_stacks(StackName=name)["Stacks"]
        assert about["StackStatus"] == "CREATE_COMPLETE"
        made = self.stacks.describe_stack_resources(StackName=name)["StackResources"]
        ids = {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in made if "LogicalResourceId" in one}
        return ids, {one["OutputKey"]: one["OutputValue"] for one in about["Outputs"]}

    def launch_template(self, identity: str) -> Any:
        versions = self.ec2.describe_launch_template_versions(LaunchTemplateId=identity, Versions=["$Latest"])
        return versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]

    def policy_of(self, role: str, name: str) -> Any:
        return self.iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]["Statement"]


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        stack.enter_context(mock_aws())
        yield Account()


def user_data(account: Account, ids: dict[str, str], name: str, **parameters: str) -> str:
    """As moto rendered it, which is as we resolve it."""
    rendered = base64.b64decode(account.launch_template(ids["LaunchTemplate"])["UserData"]).decode()
    stack = Resolver(template(), {"ImageId": IMAGE, **parameters}).resources()
    ours = stack["LaunchTemplate"]["Properties"]["LaunchTemplateData"]["UserData"]
    for one in ("Bucket", "LogGroup"):
        ours = ours.replace(f"${{{one}}}", ids[one])
    assert rendered == ours.replace("--stack train ", f"--stack {name} ")
    checked = subprocess.run(["bash", "-n"], input=rendered, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    return rendered


def test_a_network_of_its_own_with_endpoints(account):
    ids, outputs = account.make("alone")
    services = {
        one["ServiceName"].rpartition(".")[2]
        for one in account.ec2.describe_vpc_endpoints()["VpcEndpoints"]
        if one["VpcId"] == ids["Vpc"]
    }
    assert services == {"s3", "ssm", "ssmmessages", "ec2messages", "logs", "autoscaling"}
    assert not {"Nat", "PublicSubnet", "FromEachOther"} & ids.keys()
    [group] = account.fleet.describe_auto_scaling_groups(AutoScalingGroupNames=[ids["Machines"]])["AutoScalingGroups"]
    assert set(group["VPCZoneIdentifier"].split(",")) == {ids["PrivateSubnetA"], ids["PrivateSubnetB"]}
    assert group["LaunchTemplate"]["LaunchTemplateId"] == ids["LaunchTemplate"]
    assert group["HealthCheckGracePeriod"] == 900
    data = account.launch_template(ids["LaunchTemplate"])
    assert data["NetworkInterfaces"][0]["Groups"] == [ids["MachineGroup"]]
    assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    script = user_data(account, ids, "alone")
    assert f"S4W_UPSTREAM=s3://{REGION}\n" in script
    assert f"S4WEIGHTS_BUCKET={ids['Bucket']}\n" in script
    assert "S4W_ENTITLEMENT" not in script
    assert outputs["Endpoint"] == "http://127.0.0.1:9000"
    assert outputs["Export"].endswith(f"={outputs['Endpoint']}")
    assert outputs["BucketName"] == ids["Bucket"]
    for statement in account.policy_of(ids["Role"], "bucket"):
        assert ids["Bucket"] in statement["Resource"]


def test_a_network_that_was_there(account):
    given = {"VpcId": account.vpc, "SubnetIds": account.subnet, "RouteTableIds": account.table, "KmsKeyArn": KEY}
    ids, _ = account.make("guest", **given, AllowVersionDeletes="yes")
    assert not {"Vpc", "PrivateSubnetA", "Nat", "SsmEndpoint", "EndpointGroup"} & ids.keys()
    [endpoint] = [one for one in account.ec2.describe_vpc_endpoints()["VpcEndpoints"] if one["VpcId"] == account.vpc]
    assert endpoint["RouteTableIds"] == [account.table]
    [group] = account.fleet.describe_auto_scaling_groups(AutoScalingGroupNames=[ids["Machines"]])["AutoScalingGroups"]
    assert group["VPCZoneIdentifier"] == account.subnet
    [machines] = account.ec2.describe_security_groups(GroupIds=[ids["MachineGroup"]])["SecurityGroups"]
    assert machines["VpcId"] == account.vpc
    assert machines["IpPermissions"] == []
    statements = account.policy_of(ids["Role"], "bucket")
    assert statements[-1]["Resource"] == KEY
    assert "s3:DeleteObjectVersion" in statements[1]["Action"]
    user_data(account, ids, "guest", VpcId=account.vpc, SubnetIds=account.subnet)


def test_a_way_out_and_an_image_that_is_sold(account):
    ids, _ = account.make("sold", Egress="nat", ProductCode=CODE)
    tables = account.ec2.describe_route_tables(RouteTableIds=[ids["PrivateRoutes"]])["RouteTables"]
    ways_out = [one for one in tables[0]["Routes"] if one.get("DestinationCidrBlock") == "0.0.0.0/0"]
    assert [one["NatGatewayId"] for one in ways_out] == [ids["Nat"]]
    assert "SsmEndpoint" not in ids
    script = user_data(account, ids, "sold", Egress="nat", ProductCode=CODE)
    assert f"S4W_ENTITLEMENT=ami\nS4W_PRODUCT_CODE={CODE}\n" in script
