"""Texts of the deployment in what Studio wrote: its account, region, bucket and roles, by name.

An edit is pulled from one deployment and compiled for another. `s3://${deployment.bucket}/labels/` is there the bucket
of the settings that are compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.studio.generated import replaced
from drivetrain.targets.sagemaker.document.difference.change import Value
from drivetrain.targets.sagemaker.settings import Settings

_NAME = re.compile(r"\$(\$?)\{deployment\.([A-Za-z._]+)\}")
_NO_ACCOUNT = "0" * 12
_ROLES = ("processing", "training", "registry")


@dataclass(frozen=True)
class DeploymentTexts:
    """Name -> text of a deployment; `texts` of `texts_of`."""

    texts: Mapping[str, str]

    def named(self, value: Value) -> Value:
        """Replace each text of the deployment in what Studio wrote by a name."""
        return replaced(value, self._named)

    def resolved(self, value: Value) -> Value:
        """The inverse for the deployment of these texts.

        Raises:
            UserError: a name that a deployment does not have.
        """
        return replaced(value, lambda text: _NAME.sub(self._text, text) if "${deployment." in text else text)

    def _named(self, text: str) -> str:
        text = _NAME.sub(lambda found: f"${found.group()}", text) if "${deployment." in text else text
        for name, own in self.texts.items():
            if own and name.startswith("role") and text == own:
                return _name(name)
        for name in ("root", "bucket"):
            if own := self.texts.get(name):
                text = re.sub(rf"(?<=s3://){re.escape(own)}(?![A-Za-z0-9._-])", lambda _, n=name: _name(n), text)
        account, region = self.texts.get("account"), self.texts.get("region")
        if account and re.search(rf"(?<![0-9]){account}(?![0-9])", text):
            text = re.sub(rf"(?<![0-9]){account}(?![0-9])", lambda _: _name("account"), text)
            text = re.sub(rf"(?<![\w-]){region}(?![\w-])", lambda _: _name("region"), text) if region else text
        return text

    def _text(self, found: re.Match[str]) -> str:
        escaped, name = found.groups()
        if escaped:
            return found.group()[1:]
        if name not in self.texts:
            raise UserError(f"${{deployment.{name}}}: {did_you_mean(name, self.texts)}")
        return self.texts[name]


NO_TEXTS = DeploymentTexts({})


def texts_of(place: Settings) -> DeploymentTexts:
    """The texts of a deployment."""
    numbers = re.findall(r"(?<![0-9])[0-9]{12}(?![0-9])", place.role)
    given = {name: getattr(place.roles, name) or place.role for name in _ROLES}
    return DeploymentTexts(
        {
            "role": place.role,
            **{f"roles.{name}": role for name, role in given.items()},
            "root": f"{place.bucket}/{place.prefix}",
            "bucket": place.bucket,
            "account": numbers[0] if numbers and numbers[0] != _NO_ACCOUNT else "",
            "region": place.region,
        }
    )


def _name(name: str) -> str:
    return f"${{deployment.{name}}}"
