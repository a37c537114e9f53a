"""The program of a QualityCheck step on this machine: `python quality_program.py BASE`, BASE being /opt/ml.

It reads the variables and folders of Model Monitor's own container: dataset_source, dataset_format, output_path, and
for the quality of a model analysis_type, problem_type and the columns. It writes statistics.json and constraints.json,
and where there is a baseline (its files in BASE/processing/baseline) constraint_violations.json.
DRIVETRAIN_FAIL_ON_VIOLATION=no makes violations warnings. Exit codes: 0 done, 1 violations or bad input.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError, warn
from drivetrain.base.json_text import object_in, parsed_object
from drivetrain.data.profile import Profile
from drivetrain.data.reading import Table, TableOptions, open_table
from drivetrain.data.statistics import TableStatistics
from drivetrain.decision.model_monitor import constraints, statistics
from drivetrain.targets.sagemaker.run.jobs.model_metrics import SECTIONS, model_constraints, model_metrics
from drivetrain.targets.sagemaker.run.jobs.monitor_checks import data_violations, metric_violations

_SHOWN = 3
# Format -> what the names of its files end with.
_NAMED = {"csv": (".csv",), "json": (".jsonl", ".ndjson"), "parquet": (".parquet",)}


def main(base: Path) -> int:
    try:
        violations = checked(base, os.environ)
        lines = [f"{each.get('feature_name') or each['metric_name']}: {each['description']}" for each in violations]
        if violations and os.environ.get("DRIVETRAIN_FAIL_ON_VIOLATION") != "no":
            more = f"; {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
            raise InputError(f"the baseline is violated: {'; '.join(lines[:_SHOWN])}{more}.")
    except InputError as error:
        (base / "output").mkdir(exist_ok=True)
        (base / "output" / "message").write_text(str(error), encoding="utf-8")
        print(f"error: {error}", file=sys.stderr)
        return 1
    for line in lines:
        warn(line)
    return 0


def checked(base: Path, given: Mapping[str, str]) -> list[dict[str, str]]:
    """Write the files, and return the violations."""
    output, source = Path(given["output_path"]), Path(given["dataset_source"])
    output.mkdir(parents=True, exist_ok=True)
    folder = base / "processing" / "baseline"
    baseline = {what: _json(folder / what) for what in ("Statistics", "Constraints") if (folder / what).is_dir()}
    ruled, known = baseline.get("Constraints"), baseline.get("Statistics", {})
    with tempfile.TemporaryDirectory(prefix="drivetrain-quality-") as scratch:
        form, options = next(iter((parsed_object(given["dataset_format"]) or {"csv": {}}).items()))
        headless = form == "csv" and not options.get("header")
        if headless or not all(path.name.endswith(_NAMED[form]) for path in _files(source)):
            source = _copied(source, form, Path(scratch), headless=headless)
        table = open_table(source, TableOptions(key=None, label=None), whole=True)
        if given.get("analysis_type") == "MODEL_QUALITY":
            kind = given.get("problem_type", "")
            metrics, rows = model_metrics(table, kind, given)
            section, head = SECTIONS[kind], {"version": 0.0, "dataset": {"item_count": rows}}
            found: dict[str, Any] = {**head, f"{section}_metrics": metrics}
            suggested: dict[str, Any] = {"version": 0.0, f"{section}_constraints": model_constraints(metrics)}
            violations = metric_violations(metrics, object_in(ruled or {}, f"{section}_constraints"))
        else:
            profile = profile_of_table(table)
            found, suggested = statistics(profile), constraints(profile)
            violations = [] if ruled is None else data_violations(profile, ruled, known)
    _write(output / "statistics.json", found)
    _write(output / "constraints.json", suggested)
    if ruled is not None:
        _write(output / "constraint_violations.json", {"violations": violations})
    print(f"{found['dataset']['item_count']:,} rows, {len(violations)} violations", flush=True)
    return violations


def profile_of_table(table: Table) -> Profile:
    """The profile of all rows of a table."""
    found = TableStatistics(table.schema, None)
    for _, _, batch in table.batches():
        found.add(batch)
    return Profile.of(found)


def _copied(source: Path, form: str, folder: Path, *, headless: bool) -> Path:
    """The files under names that the reader goes by. CSV without a header gets one with Spark's names: _c0, _c1, ..."""
    for path in _files(source):
        name = path.relative_to(source).as_posix().replace("/", "_")
        name = name if name.endswith(_NAMED[form]) else f"{name}{_NAMED[form][0]}"
        with path.open("rb") as file, (folder / name).open("wb") as written:
            if headless:
                cells = next(csv.reader([file.readline().decode("utf-8")]), list[str]())
                written.write(",".join(f"_c{place}" for place in range(len(cells))).encode() + b"\n")
                file.seek(0)
            shutil.copyfileobj(file, written)
    return folder


def _files(source: Path) -> list[Path]:
    """Those with content: Spark leaves an empty one that says that it is done."""
    return sorted(path for path in source.rglob("*") if path.is_file() and path.stat().st_size)


def _json(folder: Path) -> dict[str, Any]:
    [path] = folder.iterdir()
    found = parsed_object(path.read_text(encoding="utf-8"))
    if found is None:
        raise InputError(f"the baseline's {path.name} is no JSON object.")
    return found


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
