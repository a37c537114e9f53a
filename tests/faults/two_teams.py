"""Two teams of one account call their pipelines alike, and apply, destroy and pull at once, in an order that is drawn
call by call: no call of one writes what is the other's, and what one has applied stands until they destroy it."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.spec.deployment import Deployment
from drivetrain.studio.pulling import in_the_account
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy import deployed as reading
from drivetrain.targets.sagemaker.deploy.applying.applying import apply
from drivetrain.targets.sagemaker.deploy.applying.destroying import destroy, remains
from drivetrain.targets.sagemaker.deploy.deployed import OWNER
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.planning.planning import make_plan
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger
from drivetrain.triggers.resource_names import resource_name
from tests.faults.applied_at_once import NAME, Faulty, Place, Turns
from tests.faults.harness.families import Found, Trial
from tests.fixtures.sagemaker_service.server import TestAccount, sagemaker_service

FAULT = "two teams, one name: apply, destroy and pull at once, call by call: nothing of the other is touched"
TRIALS, QUICK, AT_ONCE = 200, 2, 2
PRELOAD = ("tests.faults.two_teams", "moto.sagemaker.models", "moto.s3.models", "moto.events.models")
PATIENCE_S = 120.0

TEAMS = ("vision", "sound")
COMMANDS = ("apply", "apply", "destroy", "pull")
MOST_COMMANDS = 3
PIPELINE = ("update_pipeline", "delete_pipeline", "add_tags", "delete_tags")
SCHEDULE, RULE = ("update_schedule", "delete_schedule"), ("put_rule", "put_targets", "remove_targets", "delete_rule")


@dataclass(frozen=True)
class Before:
    """What stands before a call is looked at from outside, so that whose it is is known whatever the product says."""

    outside: TestAccount
    written: dict[str, str]
    """Key in the bucket -> the team that wrote it."""

    def owner(self, operation: str, given: dict[str, Any]) -> str | None:
        """The team whose pipeline, rule or schedule a call writes; None where there is none."""
        if operation in PIPELINE:
            return self._pipeline()
        if operation in SCHEDULE:
            return self._found("scheduler", "ResourceNotFoundException", "get_schedule", Name=given["Name"])
        if operation in RULE:
            name = given.get("Name") or given.get("Rule")
            return self._found("events", "ResourceNotFoundException", "describe_rule", Name=name)
        if operation == "delete_objects":
            keys = [each["Key"] for each in given["Delete"]["Objects"]]
            return next((self.written[key] for key in keys if key in self.written), None)
        return None

    def _pipeline(self) -> str | None:
        client = self.outside.client("sagemaker")
        there = client.list_pipelines()["PipelineSummaries"]
        if not there:
            return None
        tags = client.list_tags(ResourceArn=there[0]["PipelineArn"])["Tags"]
        return next((tag["Value"].split()[-1] for tag in tags if tag["Key"] == OWNER), None)

    def _found(self, service: str, absent: str, operation: str, **which: Any) -> str | None:
        client = self.outside.client(service)
        try:
            return getattr(client, operation)(**which)["Description"]
        except getattr(client.exceptions, absent):
            return None


class Watched(Faulty):
    """Notes each call that writes what is another team's."""

    team = ""
    before: Before
    wrong: list[str]

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
        self.turn()
        owner = self.before.owner(operation, arguments)
        if owner not in (None, self.team):
            self.wrong.append(f"{self.team} calls {operation} on what is {owner}'s: {about}")
        said = Account.call(self, service, operation, about=about, **arguments)
        if operation == "put_object" and "/code/" in arguments["Key"]:
            self.before.written.setdefault(arguments["Key"], self.team)
        return said


class Team(threading.Thread):
    """One team, and the commands that it gives one after the other."""

    def __init__(self, turns: Turns, place: Place, before: Before, team: str, root: str, commands: list[str]) -> None:
        super().__init__(daemon=True)
        self.go, self.has_ended = threading.Semaphore(0), False
        self.turns, self.place, self.team, self.root, self.commands = turns, place, team, root, commands
        self.account = Watched(place.account, self.turn, "none", 0)
        self.account.team, self.account.before, self.account.wrong = team, before, []
        self.did: Counter[str] = Counter()
        self.stands: Desired | None = None
        self.wrong = self.account.wrong

    def turn(self) -> None:
        self.turns.back.release()
        self.go.acquire()

    def run(self) -> None:
        self.go.acquire()
        for number, command in enumerate(self.commands):
            try:
                getattr(self, command)(number)
                self.did[command] += 1
            except UserError as error:
                self.did[f"{command} refused"] += 1
                if command == "apply" and "but read again" in str(error):
                    self.wrong.append(f"{self.team}: {error}")
            except Exception as error:
                self.wrong.append(f"{self.team}'s {command} ends with {error!r}")
        self.has_ended = True
        self.turns.back.release()

    def apply(self, number: int) -> None:
        wanted = self.wanted(number)
        plan = make_plan(self.account, wanted, reading.read(self.account, NAME))
        apply(self.account, wanted, plan, pause=lambda seconds: self.turn())
        self.stands = wanted

    def destroy(self, number: int) -> None:
        found = remains(self.account, NAME, self.wanted(number).owner)
        destroy(self.account, found, pause=lambda seconds: self.turn())
        self.stands = None

    def pull(self, number: int) -> None:
        bucket, _, prefix = self.root.removeprefix("s3://").partition("/")
        block = {"sagemaker": {"bucket": bucket, "prefix": prefix, "region": self.account.region}}
        there, _ = in_the_account(self.account, NAME, Deployment(project=self.team, targets=block), NAME, adopt=False)
        if there.tags.get(OWNER, "").split()[-1:] != [self.team]:
            self.wrong.append(f"{self.team} pulled what is another's")

    def wanted(self, number: int) -> Desired:
        """Of both teams the same rule and schedule, by name."""
        plain = self.place.wanted(f"{self.team}{number}")
        rule, schedule = plain.triggers
        return replace(
            plain,
            root=self.root,
            project=self.team,
            definition=json.loads(plain.text.replace(plain.root, f"{self.root}/{NAME}")),
            assets=tuple(replace(one, uri=one.uri.replace(plain.root, f"{self.root}/{NAME}")) for one in plain.assets),
            triggers=(
                replace(rule, arguments={**rule.arguments, "Description": self.team}),
                AccountTrigger(
                    "schedule",
                    resource_name(NAME, "daily"),
                    {**schedule.arguments, "Description": self.team},
                ),
            ),
        )


def trial(given: Trial, shared: object) -> Found:
    with sagemaker_service().account() as outside:
        place = Place(Account(outside.region), outside.make_bucket())
        return _played(given.draw, place, outside)


def _played(draw: random.Random, place: Place, outside: TestAccount) -> Found:
    root = f"s3://{place.bucket}/pipelines"
    # The same bucket and prefix, or another prefix.
    roots = [root, draw.choice((root, f"{root}-of-others"))]
    turns, before = Turns(draw), Before(outside, {})
    teams = [
        Team(turns, place, before, team, where, [draw.choice(COMMANDS) for _ in range(draw.randint(1, MOST_COMMANDS))])
        for team, where in zip(TEAMS, roots, strict=True)
    ]
    turns.play(teams)
    wrong = [text for team in teams for text in team.wrong]
    standing = [(team, team.stands) for team in teams if team.stands is not None]
    if len(standing) > 1:
        wrong.append("both stand")
    for team, wanted in standing:
        plan = make_plan(place.account, wanted, place.there())
        if not plan.is_empty or plan.refusal is not None:
            wrong.append(f"what {team.team} applied does not stand: {plan.refusal or plan.to_json()}")
    did: Counter[str] = Counter()
    for team in teams:
        did.update(team.did)
    said = "; ".join(f"{team.team} in {team.root}: {', '.join(team.commands)}" for team in teams)
    return Found([f"{text} [{said}]" for text in wrong], dict(did))
