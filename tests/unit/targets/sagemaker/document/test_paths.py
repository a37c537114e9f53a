import pytest

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import parse_path
from drivetrain.targets.sagemaker.document import descend, path_text

JSON = {
    "metrics": {"mse": {"value": 2.5}, "a.b": [10, {"it's": 1}], "": "empty"},
    "Outputs": [{"OutputName": "train", "Uri": "s3://a"}, {"OutputName": "test", "Uri": "s3://b"}],
    "FinalMetricDataList": [{"MetricName": "loss", "Value": 0.5}],
    "none": None,
}


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("a", ("a",)),
        ("a.b-c_d.e", ("a", "b-c_d", "e")),
        ("a['b.c'].d", ("a", "b.c", "d")),
        ('a["b"]', ("a", "b")),
        ("a[0][12].b", ("a", 0, 12, "b")),
        ("[0].a", (0, "a")),
        ("['a']['b c']", ("a", "b c")),
        ("a['it's']", ("a", "it's")),
        ("a['']", ("a", "")),
        ("a['x\ny']", ("a", "x\ny")),
        ("a['[0]']", ("a", "[0]")),
        ("über.größe", ("über", "größe")),
    ],
)
def test_grammar(text: str, segments: tuple[str | int, ...]) -> None:
    assert parse_path(text) == segments
    assert parse_path(path_text(segments)) == segments


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a[",
        "a[]",
        "a[-1]",
        "a[x]",
        "a['b'",
        "a['b]",
        "a]b",
        "a[0]b",
        "a'b",
        "[1234567890]",
    ],
)
def test_invalid_paths_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a path"):
        parse_path(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metrics.mse.value", 2.5),
        ("metrics['a.b'][1]['it's']", 1),
        ("metrics['']", "empty"),
        ("Outputs['test'].Uri", "s3://b"),
        ("Outputs[0].Uri", "s3://a"),
        ("FinalMetricDataList['loss'].Value", 0.5),
        ("none", None),
    ],
)
def test_descends(path: str, value: object) -> None:
    assert descend(JSON, parse_path(path)) == value


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("metrics.msee", "metrics has no 'msee'. Did you mean 'mse'?"),
        ("metric", "it has no 'metric'. Did you mean 'metrics'?"),
        ("metrics[0]", "metrics has no 0."),
        ("Outputs['tran']", "Outputs has no 'tran'. Did you mean 'train'? Allowed: test, train."),
        ("Outputs[2]", "Outputs is a list of 2, without 2."),
        ("metrics['a.b']['x']", "metrics['a.b'] is a list of 2, without 'x'."),
        ("metrics.mse.value.x", "metrics.mse.value is a single value, without 'x'."),
        ("none.x", "none is a single value, without 'x'."),
    ],
)
def test_says_how_far_the_path_leads(path: str, said: str) -> None:
    with pytest.raises(LookupError) as caught:
        descend(JSON, parse_path(path))
    assert str(caught.value.args[0]).startswith(said)
