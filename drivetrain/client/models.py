"""Registered models, in any registry: read, decided on, fetched."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drivetrain
from drivetrain.base.errors import UserError, shown
from drivetrain.client.arguments import checked, checked_home
from drivetrain.client.frames import Listed, Named
from drivetrain.operations.models import keep, login, refuse_filled
from drivetrain.registry.card_sections import as_markdown
from drivetrain.run_store.home import Home
from drivetrain.telling.page.card_page import card_page

if TYPE_CHECKING:
    from drivetrain.registry import registry as registries


class Model:
    """A registered version of a model, as it was when it was asked for; `dt.Registry().model("digits")` gives one."""

    def __init__(self, of: Registry, version: registries.ModelVersion | None = None) -> None:
        if not isinstance(of, Registry) or not hasattr(version, "group"):  # type: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"Model({shown(of)}): a registry gives models: dt.Registry().model('digits', 'latest').")
        assert version is not None
        self._of, self._version = of, version

    @property
    def group(self) -> str:
        """The model's name."""
        return self._version.group

    @property
    def version(self) -> int:
        """Its number in the group: 1, 2, 3, ..."""
        return self._version.version

    @property
    def status(self) -> str:
        """PendingManualApproval, Approved or Rejected."""
        return self._version.status

    @property
    def reason(self) -> str | None:
        """That of the last decision on it."""
        return self._version.reason

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics that were measured of it."""
        return Named("metric", self._version.metrics)

    @property
    def registered(self) -> datetime:
        """When (UTC)."""
        return datetime.fromtimestamp(self._version.created_at, UTC)

    @property
    def artifact(self) -> str:
        """The URI of its folder or archive: file://, s3://; "" where it is not known."""
        return self._version.artifact

    @property
    def content_hash(self) -> str:
        """SHA-256 of its files; "" where the registry knows none."""
        return self._version.content_hash

    @property
    def lineage(self) -> dict[str, str]:
        """Its origin: data, test-data, code, config (hashes), execution."""
        return self._version.lineage

    @property
    def decision(self) -> dict[str, Any] | None:
        """The record of the decision to register it, or what the registry keeps of that."""
        return self._version.decision

    @property
    def card(self) -> str:
        """Its model card as Markdown; a notebook shows it as a page."""
        return as_markdown(self._version)

    @property
    def run(self) -> drivetrain.Run | None:
        """The `dt.Run` on this machine that made it; None where it is not here."""
        execution = self.lineage.get("execution", "").rpartition("/")[2]
        home = Home(self._of.home)
        if not execution or not home.run(execution).is_dir():
            return None
        return drivetrain.Run(execution, home=home.root)  # by its public name: a run imports this module for its model

    def approve(self, reason: str | None = None, *, against_decision: str = "") -> Model:
        """Make it the champion. Newer versions that are approved are rejected, as `drivetrain models approve` does.

        Args:
            against_decision: why it is approved, where the decision on it speaks against it; it is kept.

        Raises:
            UserError: the registry cannot be reached, or refuses; the decision on it speaks against it, or its files
                are not those that were registered.
        """
        from drivetrain.registry.approving import make_champion

        checked("approve", str | None, reason=reason)
        checked("approve", str, against_decision=against_decision)
        self._version = make_champion(
            self._of.opened, self.group, self.version, reason=reason, by=login(), against=against_decision
        )[0]
        return self

    def reject(self, reason: str | None = None) -> Model:
        """Reject it.

        Raises:
            UserError: the registry cannot be reached, or refuses.
        """
        checked("reject", str | None, reason=reason)
        found = self._of.opened.set_status(self.group, self.version, "Rejected", reason=reason, by=login())
        self._version = found
        return self

    def download(self, folder: str | Path) -> Path:
        """Keep its files in a folder, held against the hash that was registered; gives the folder.

        Raises:
            UserError: something is in the folder; the files are others, or cannot be had; the registry knows no hash of
                them.
        """
        checked("download", str | Path, folder=folder)
        folder = Path(folder)
        refuse_filled(folder)
        keep(self._version, folder, self._of.url, self._of.home)
        return folder

    @contextmanager
    def open(self) -> Generator[Path]:
        """Its files, verified, for as long as the block runs.

            with dt.Registry().model("digits", "approved").open() as folder:
                print(list(folder.iterdir()))

        Raises:
            UserError: as `download`.
        """
        with tempfile.TemporaryDirectory(prefix="drivetrain-model-") as scratch:
            yield self.download(Path(scratch) / "model")

    def __repr__(self) -> str:
        return f"Model({self.group!r} version {self.version}: {self.status})"

    def _repr_html_(self) -> str:
        """Its card, for notebooks."""
        from html import escape

        page = escape(card_page(self._version), quote=True)
        return f'<iframe srcdoc="{page}" sandbox style="width:100%;height:480px;border:0"></iframe>'


class Models(Listed[Model]):
    """Versions as a list that a notebook shows as a table: group, version, status, registered, metrics."""

    columns = ("group", "version", "status", "registered")
    nothing = "no models"

    def row(self, item: Model) -> dict[str, Any]:
        return {
            "group": item.group,
            "version": item.version,
            "status": item.status,
            "registered": item.registered,
            **item.metrics,
        }


class Registry:
    """A registry of models. Nothing is asked before something is wanted of it.

        dt.Registry().model("digits", "approved").metrics["accuracy"]
        dt.Registry("mlflow:http://localhost:5000").models("digits")

    Args:
        url: `local:PATH`, `sagemaker`, `mlflow:URL`, `kubeflow:URL`; $DRIVETRAIN_REGISTRY, else that of the runs here,
            unless given.
        home: the folder of runs whose registry it is.

    Raises:
        UserError: both are given, or something that is no URL.
    """

    def __init__(self, url: str | None = None, *, home: str | Path | None = None) -> None:
        if url is not None and not isinstance(url, str):  # type: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"Registry({shown(url)}): give KIND:LOCATION, such as 'mlflow:http://localhost:5000'.")
        checked_home("Registry", home)
        if url is not None and home is not None:
            raise UserError(f"Registry({url!r}, home={str(home)!r}): two places. Give one: home is for local models.")
        self.url, self.home = url, None if home is None else Path(home)

    @property
    def opened(self) -> registries.Registry:
        """The registry's own protocol (drivetrain/registry/registry.py)."""
        from drivetrain.operations.models import opened

        return opened(self.url, self.home)

    @property
    def groups(self) -> list[str]:
        """The names of the models, sorted."""
        return [group.name for group in self.opened.groups()]

    def models(self, group: str | None = None) -> Models:
        """Every version of a group, the newest first; or the newest version of every group.

        Raises:
            InputError: there is no such group.
        """
        if group is not None:
            return Models([Model(self, version) for version in self.opened.versions(_name(group))])
        return Models([Model(self, each.latest) for each in self.opened.groups()])

    def model(self, group: str, version: int | str = "latest") -> Model:
        """One version: its number, `latest`, or `approved` (the newest approved one, the champion).

        Raises:
            InputError: there is no such version.
        """
        checked("model", int | str, version=version)
        return Model(self, self.opened.version(_name(group), version))

    def champion(self, group: str) -> Model | None:
        """The newest approved version; None without one."""
        found = self.opened.champion(_name(group))
        return None if found is None else Model(self, found)

    def __repr__(self) -> str:
        return f"Registry({self.url or 'of the runs here'!r})"


def models(group: str | None = None, *, registry: str | None = None, home: str | Path | None = None) -> Models:
    """Registered models: every version of a group, the newest first; or the newest version of every group.

        dt.models("digits").to_frame()
        dt.models("digits")[0].approve("better on all classes")

    Args:
        registry: as `dt.Registry` takes it.
        home: the folder of runs; $DRIVETRAIN_HOME, else `.drivetrain` in the working folder, unless given.

    Raises:
        UserError: both are given.
        InputError: there is no such group.
    """
    return Registry(registry, home=home).models(group)


def _name(group: Any) -> str:
    if not isinstance(group, str):
        raise UserError(f"{shown(group)} is no name of a model. Give its group, such as 'digits'.")
    return group
