"""A network without a way to the internet, in which jobs reach AWS's services by endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aws_cdk import CfnOutput, Fn, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from drivetrain.infra.groups import log_group
from drivetrain.infra.options import Options, PrivateNetwork
from drivetrain.targets.sagemaker.permissions.names import Names

# What a job in a private network asks:
# https://docs.aws.amazon.com/sagemaker/latest/dg/train-vpc.html and infrastructure-give-access.html
ENDPOINTS = {
    "SageMaker": ec2.InterfaceVpcEndpointAwsService.SAGEMAKER_API,
    "Ecr": ec2.InterfaceVpcEndpointAwsService.ECR,
    "EcrImages": ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
    "Logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    "Metrics": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING,
    "Keys": ec2.InterfaceVpcEndpointAwsService.KMS,
    "Tokens": ec2.InterfaceVpcEndpointAwsService.STS,
}
HTTPS = 443
NAMED_ZONE = "W3010"
"""cfn-lint warns of zones by name; here they are the user's choice."""
# Where ECR keeps the layers of images: https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html
IMAGE_LAYERS = "prod-{region}-starport-layer-bucket"


class Network(Construct):
    """Subnets in several zones, a security group for jobs, and endpoints that only they reach."""

    def __init__(
        self,
        scope: Construct,
        names: Names,
        options: Options,
        wanted: PrivateNetwork,
        buckets: Iterable[str],
        *,
        sends_findings: bool,
    ) -> None:
        """Args:
        buckets: those that the pipeline's steps name; no other can be reached from the subnets.
        sends_findings: a step sends findings in served data as events.
        """
        super().__init__(scope, "Network")
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(wanted.cidr),
            # Of a number the names are asked for when the stack is deployed (below).
            availability_zones=[str(n) for n in range(wanted.zones)]
            if isinstance(wanted.zones, int)
            else list(wanted.zones),
            nat_gateways=0,
            subnet_configuration=[ec2.SubnetConfiguration(name="jobs", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)],
        )
        for n, subnet in enumerate(self.vpc.isolated_subnets):
            child = subnet.node.default_child
            assert isinstance(child, ec2.CfnSubnet)
            if isinstance(wanted.zones, int):
                child.availability_zone = Fn.select(n, Fn.get_azs())
            else:
                child.add_metadata("cfn-lint", {"config": {"ignore_checks": [NAMED_ZONE]}})
        path = f"/drivetrain/{names.named('network')}"
        self.vpc.add_flow_log(
            "Flows",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(
                log_group(self, "FlowLog", path, options, RemovalPolicy.DESTROY)
            ),
            traffic_type=ec2.FlowLogTrafficType.ALL,
        )
        self.jobs = ec2.SecurityGroup(
            self,
            "Jobs",
            vpc=self.vpc,
            description=f"Jobs of pipeline {names.pipeline}",
            allow_all_outbound=False,
        )
        # Hosts of one training talk to each other on ports of their own choice.
        self.jobs.add_ingress_rule(self.jobs, ec2.Port.all_traffic(), "hosts of one training")
        self.jobs.add_egress_rule(self.jobs, ec2.Port.all_traffic(), "hosts of one training")
        gateway = self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        for statement in _through_gateway(names, buckets):
            gateway.add_to_policy(statement)
        endpoints = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=self.vpc,
            description=f"Services that jobs of pipeline {names.pipeline} reach",
            allow_all_outbound=False,
        )
        endpoints.add_ingress_rule(self.jobs, ec2.Port.tcp(HTTPS), "jobs")
        self.jobs.add_egress_rule(endpoints, ec2.Port.tcp(HTTPS), "endpoints of services")
        # Through the gateway: its addresses are public ones, and no other way leads there from these subnets.
        self.jobs.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(HTTPS), "objects in S3, by the gateway endpoint")
        events = {"Events": ec2.InterfaceVpcEndpointAwsService.EVENTBRIDGE} if sends_findings else {}
        for name, service in {**ENDPOINTS, **events}.items():
            self.vpc.add_interface_endpoint(name, service=service, security_groups=[endpoints], open=False)
        CfnOutput(self, "Subnets", value=",".join(subnet.subnet_id for subnet in self.vpc.isolated_subnets))
        CfnOutput(self, "SecurityGroup", value=self.jobs.security_group_id)


def _through_gateway(names: Names, buckets: Iterable[str]) -> Iterator[iam.PolicyStatement]:
    """The pipeline's buckets, for every caller and action: the roles restrict these. A program with credentials of its
    own cannot take data to another bucket."""
    reached = sorted({names.bucket, *buckets})
    yield iam.PolicyStatement(
        sid="Buckets",
        principals=[iam.AnyPrincipal()],
        actions=["s3:*"],
        resources=[f"arn:{names.partition}:s3:::{bucket}{rest}" for bucket in reached for rest in ("", "/*")],
    )
    yield iam.PolicyStatement(
        sid="ImageLayers",
        principals=[iam.AnyPrincipal()],
        actions=["s3:GetObject"],
        resources=[names.object(IMAGE_LAYERS.format(region=names.region), "*")],
    )
