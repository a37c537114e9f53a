"""Judge a night's data before it is trained on: by the accepted nights before it, and by the training set of the
approved version.

    python -m drivetrain.components.check_data --train build/train --validation build/validation --test build/test \\
        --report build/report --metrics build/metrics --group digits

The sides are judged together. The nights of a group are kept with its registry: an accepted night is appended, one that
failed is not. The same night again has the verdict that it had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from drivetrain.base.errors import InputError, warn
from drivetrain.steps import Input, Output
from drivetrain.steps.declaration import component

if TYPE_CHECKING:
    from drivetrain.data.manifest import Manifest

# Columns whose sentences stand in the error.
_SHOWN = 3


class DataChecked(TypedDict):
    """The numbers that a pipeline can decide on: 1 is yes, 0 no. `why` is the verdict in one line."""

    passed: int
    failed: int
    warned: int
    drifted_columns: int
    quarantined_rows: int
    nights: int
    rows: int
    verdict: str
    why: str


@component(needs=("pyarrow", "numpy", "boto3"), cached=False)
def check_data(
    train: Input,
    report: Output,
    validation: Input | None = None,
    test: Input | None = None,
    calibration: Input | None = None,
    *,
    group: str,
    registry: str = "auto",
    rules: str = "{}",
    night: str = "",
    warnings_a_year: float = 4.0,
    nights_a_year: float = 365.0,
    on_failure: Literal["stop", "report"] = "stop",
    dry: bool = False,
) -> DataChecked:
    """Judge a night's data before it is trained on.

    Args:
        train: the train set of prepare_data, or what transform_data or read_source wrote.
        report: gets data_check.json, data_check.md and model_monitor/.
        validation: the validation set of the same run; all sides are judged together.
        test: its test set.
        calibration: its calibration set.
        group: the model's name in the registry, which keeps the nights of its data and names the approved version.
        registry: KIND:LOCATION, or auto for the registry of the platform.
        rules: a rules file as JSON; its parts nights, drift and fresh say what fails (docs/data_checks.md).
        night: the day of the data, as 2026-11-30; unless given today, in UTC.
        warnings_a_year: false warnings to expect, over all columns and statistics.
        nights_a_year: how often the pipeline runs.
        on_failure: of a night that fails: stop the run, or report it, for a condition on `failed`.
        dry: nothing fails, and the night counts as accepted; alarms are not kept: what the rules would have done.

    Raises:
        InputError: the night fails; sets of different runs, or without a profile; rules of another form; a registry
            that cannot be asked.
    """
    from drivetrain.data.manifest import Manifest
    from drivetrain.data.profile import PROFILE, WHOLE, merged, profile_of
    from drivetrain.decision.data_bounds import Settings
    from drivetrain.decision.data_check import FAILED, WARNED
    from drivetrain.decision.data_nights import day_of, judged
    from drivetrain.decision.data_record import About, write
    from drivetrain.decision.data_rules import night_rules
    from drivetrain.registry.registry import checked_group, kind_of, named, open_registry, shown

    checked_group(group)
    settings = Settings(warnings_a_year=warnings_a_year, nights_a_year=nights_a_year)
    limits, day = night_rules(rules), day_of(night, "night")
    sides = [folder for folder in (train, validation, test, calibration) if folder is not None]
    manifests = [Manifest.read(folder, checksums=False, statistics=False) for folder in sides]
    manifest = manifests[0]
    if any(other.lineage.get("sources") != manifest.lineage.get("sources") for other in manifests):
        raise InputError("the sets are of different runs: their rows come from different files. Give those of one run.")
    profiles = [profile_of(folder, PROFILE, each) for folder, each in zip(sides, manifests, strict=True)]
    profile = merged(profiles)
    checked = judged(
        open_registry(registry),
        group,
        profile,
        profile_of(train, WHOLE, manifest) if WHOLE in manifest.lineage else profiles[0],
        manifest.content_hash,
        day,
        limits,
        settings,
        dry=dry,
    )
    place = "local" if kind_of(registry) == "local" else shown(named(registry))
    about = About(group=group, registry=place, quarantined_rows=_quarantined(manifest))
    write(checked, profile, report, about)
    print(f"data {checked.verdict}: {checked.why[0]}", flush=True)
    failed = checked.verdict == FAILED and not dry
    stops = failed and on_failure == "stop"
    for line in checked.why[1:] if checked.verdict in (FAILED, WARNED) and not stops else ():
        warn(line)
    if stops:
        more = f" {len(checked.why) - _SHOWN - 1} more in data_check.md." if len(checked.why) > _SHOWN + 1 else ""
        is_open = any(alarm.column in checked.failed for alarm in checked.alarms)
        accept = f", or accept the change: drivetrain data alarms {group} --accept COLUMN --why TEXT" if is_open else ""
        raise InputError(
            f"the data of {day} failed: {' '.join(checked.why[: _SHOWN + 1])}{more} Nothing is trained on them. Repair "
            f"them and run again{accept}."
        )
    return {
        "passed": int(not failed),
        "failed": len(checked.failed) if failed else 0,
        "warned": len(checked.warned) - len(checked.failed),
        "drifted_columns": 0 if checked.drifted is None else len(checked.drifted.warned),
        "quarantined_rows": about.quarantined_rows,
        "nights": len(checked.before.days),
        "rows": profile.rows,
        "verdict": checked.verdict,
        "why": " ".join(checked.why)[:1000],
    }


def _quarantined(manifest: Manifest) -> int:
    """Rows that prepare_data put aside."""
    rules = manifest.lineage.get("rules", ())
    return sum(entry["rows"] for entry in rules if entry["then"] == "quarantine")


if __name__ == "__main__":
    check_data.main()
