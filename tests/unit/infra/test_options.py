"""The options of the stack: read from a file of a few lines, wrong ones told in one."""

from pathlib import Path
from typing import get_args

import pytest

from drivetrain.base.errors import UserError
from drivetrain.infra.options import ContinuousIntegration, Options, PrivateNetwork, Status, read_options


def written(folder: Path, text: str) -> Path:
    path = folder / "infra.yaml"
    path.write_text(text)
    return path


def test_without_a_file_nothing_is_added() -> None:
    assert read_options(None) == Options()
    assert (Options().ci, Options().network, Options().studio, Options().notify) == (None, None, None, ())


def test_every_execution_status_can_be_notified() -> None:
    service = pytest.importorskip("botocore.session").get_session().get_service_model("sagemaker")
    assert set(get_args(Status)) == set(service.shape_for("PipelineExecutionStatus").enum)
    # Those that a person must look at.
    assert Options().notify_on == ("Failed", "CompletedWithFailures", "Stopped")


def test_a_file_of_a_few_lines(tmp_path: Path) -> None:
    text = "notify: [ops@example.com]\nci: {repository: acme/models}\nnetwork: {zones: 3}\nparameters: {Data: [s3://a/b]}\n"
    assert read_options(written(tmp_path, text)) == Options(
        notify=("ops@example.com",),
        ci=ContinuousIntegration(repository="acme/models"),
        network=PrivateNetwork(zones=3),
        parameters={"Data": ("s3://a/b",)},
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("checkpont_days: 3\n", "checkpont_days: Extra inputs are not permitted; given 3"),
        ("log_days: 8\n", "log_days: Input should be 1, 3, 5"),
        ("notify: [nobody]\n", "notify.0: String should match pattern"),
        ("ci: {repository: models}\n", "ci.repository: String should match pattern"),
        ("ci: {repository: acme/models, subjects: ['*']}\n", "ci.subjects"),
        ("ci: {repository: acme/models, subjects: []}\n", "ci.subjects"),
        ("ci: {repository: acme/models, destroy_subjects: ['*']}\n", "ci.destroy_subjects"),
        ("ci: {repository: acme/models, destroy_subjects: ['ref:refs/heads/main']}\n", "main also deploys: a run"),
        ("ci: {repository: acme@71/models}\n", "ci.repository: String should match pattern"),
        ("ci: {repository: 'acme@*/models@*'}\n", "ci.repository: String should match pattern"),
        ("ci: {repository: acme/models, provider: github}\n", "ci.provider: Input should be 'make' or 'existing'"),
        ("network: {zones: 7}\n", "network.zones: Value error, allowed are 1 to 6"),
        ("network: {zones: [eu-west-1]}\n", "network.zones: Value error, allowed are 1 to 6"),
        ("network: {zones: [eu-west-1a, eu-west-1a, b]}\n", "such as [eu-west-1a, eu-west-1b]"),
        ("bucket: existing\nbucket_key: alias/ours\n", "bucket_key: String should match pattern"),
        ("bucket_key: key\n", "bucket_key: String should match pattern"),
        ("network: {cidr: nonsense}\n", "network.cidr: Value error"),
        ("network: {cidr: 10.80.0.1/16}\n", "network.cidr: Value error, 10.80.0.1/16 has host bits set"),
        ("network: {cidr: 10.0.0.0/8}\n", "network.cidr: Value error, allowed are networks of /16 to /24"),
        ("studio: true\n", "studio: Input should be"),
        ("studio: {source: drivetrain}\n", "studio.source: String should match pattern"),
        ("studio: {source: 's3://acme/drivetrain-1.2-py3-none-any.whl'}\n", "studio.sha256: Field required"),
        ("studio: {source: 's3://acme/$(id).whl', sha256: 00}\n", "studio.source: String should match pattern"),
        ("studio: {source: 'http://acme.example/drivetrain.whl', sha256: 00}\n", "studio.source"),
        ("bucket: maybe\n", "bucket: Input should be 'make' or 'existing'; given 'maybe'"),
        ("network: {zones: 0}\nlog_days: 8\n", "(1 more)"),
        ("notify: ops@acme.example\n", "notify: Write it as a list, such as [NAME]; given 'ops@acme.example'"),
        ("existing_groups: digits\n", "existing_groups: Write it as a list"),
        ("tags: {'aws:team': ml}\n", "names that begin with aws: or drivetrain: are taken, such as 'aws:team'"),
        ("tags: {'drivetrain:stack-of': other}\n", "are taken, such as 'drivetrain:stack-of'"),
        ('tags: {"a\\tb": ml}\n', "is no tag. Allowed: letters, digits"),
        ("tags: {'': ml}\n", "is no tag"),
        (f"tags: {{team: {'x' * 257}}}\n", "'team' is no tag"),
    ],
)
def test_invalid_options_are_reported(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError) as told:
        read_options(path)
    assert str(told.value).startswith(f"{path}: ")
    assert said in str(told.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"infra\.yaml"):
        read_options(tmp_path / "infra.yaml")
