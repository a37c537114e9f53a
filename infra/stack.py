"""The stack of one pipeline: all that stands around it in an account, derived from its definition."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from aws_cdk import CfnOutput, Environment, Stack, Tags
from constructs import Construct

from drivetrain.infra.events import Events, Triggers
from drivetrain.infra.given import check_given, left_to_the_owner
from drivetrain.infra.groups import JobLogs, ModelGroups
from drivetrain.infra.network import Network
from drivetrain.infra.notices import Notices
from drivetrain.infra.options import Options
from drivetrain.infra.roles import Roles, ci_trusts
from drivetrain.infra.storage import Storage
from drivetrain.infra.studio import Studio
from drivetrain.targets.sagemaker.compile.compile import Compiled
from drivetrain.targets.sagemaker.document.document import from_json
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.places import PATTERNS
from drivetrain.targets.sagemaker.permissions.policies import CI, DESTROYER, derive
from drivetrain.targets.sagemaker.permissions.reading import read_uses
from drivetrain.targets.sagemaker.settings import settings_of


class PipelineStack(Stack):
    """Bucket, key, roles, groups, queues, starter, notices, logs; by the options network, CI, Studio, triggers."""

    def __init__(self, scope: Construct, compiled: Compiled, options: Options, folder: Path) -> None:
        """Args:
        folder: where archives of code are put for the synthesis.
        """
        pipeline = compiled.pipeline
        names = Names.of(pipeline, options.bucket_key)
        super().__init__(
            scope,
            names.named("stack"),
            env=Environment(account=names.account, region=names.region),
            description=f"What stands around pipeline {names.pipeline}",
            termination_protection=options.termination_protection,
        )
        tags = {"drivetrain:stack-of": names.pipeline, **settings_of(pipeline.deployment).tags, **options.tags}
        definition = from_json(dict(compiled.definition), names.pipeline)
        uses = read_uses(definition, names, PATTERNS, options.parameters).uses
        storage = Storage(self, pipeline, names, options) if options.bucket == "make" else None
        if storage is not None:
            names = Names.of(pipeline, storage.key.key_arn)
        trusts = {} if options.ci is None else ci_trusts(self, options.ci, names)
        derived = derive(definition, names, options.parameters, trusts)
        self.notes = (*derived.notes, *left_to_the_owner(pipeline, names, options))
        self.policies = tuple(policy for policy in derived.policies if policy.trust)
        check_given(names, (policy.role for policy in self.policies), options)
        roles = Roles(self, self.policies, names)
        ModelGroups(self, uses, names, options)
        JobLogs(self, uses, options)
        events = Events(self, names, options, roles.by_arn[names.role("starter")], folder)
        key = None if storage is None else storage.key
        Notices(self, names, options, key, (events.dead_letters, events.failed))
        if options.network is not None:
            buckets = {place.bucket for use in uses for place in (*use.reads, *use.writes)}
            sends = any(use.sends_findings for use in uses)
            Network(self, names, options, options.network, buckets, sends_findings=sends)
        if options.studio is not None:
            Studio(self, names, options.studio, tags)
        if options.triggers == "stack":
            Triggers(self, pipeline, names, roles.by_arn[names.role("scheduler")])
        self._tell(names, events, trusts)
        for name, value in tags.items():
            Tags.of(self).add(name, value)

    def _tell(self, names: Names, events: Events, trusts: Collection[str]) -> None:
        """Print what the settings file of the pipeline must name."""
        told = {
            "Bucket": names.bucket,
            "Role": names.pipeline_role,
            "SchedulerRole": names.role("scheduler"),
            "EventQueue": events.queue.queue_arn,
            "DeadLetterQueue": events.dead_letters.queue_arn,
            **({"DeployerRole": names.role(CI)} if CI in trusts else {}),
            **({"DestroyerRole": names.role(DESTROYER)} if DESTROYER in trusts else {}),
            **({"Key": names.bucket_key} if names.bucket_key else {}),
        }
        for name, value in told.items():
            CfnOutput(self, name, value=value)
