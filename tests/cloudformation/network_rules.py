"""Who reaches the machines, and what they reach."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cloudformation.stack import Stack, rule

WORLD = {"0.0.0.0/0", "::/0"}
SERVICES = ("ssm", "ssmmessages", "ec2messages", "logs", "autoscaling")


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
def machines_reach_each_other_only_where_asked_for(stack: Stack) -> Iterator[str]:
    asked = stack.parameters.get("MachinesTalk") == "yes"
    for name, end in (("Ingress", "Source"), ("Egress", "Destination")):
        among = [
            one
            for one in stack.of(f"EC2::SecurityGroup{name}").values()
            if one["GroupId"] == one.get(f"{end}SecurityGroupId") == "${MachineGroup}"
        ]
        if bool(among) != asked:
            yield f"{name}: {among}"


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
    for service in SERVICES:
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
