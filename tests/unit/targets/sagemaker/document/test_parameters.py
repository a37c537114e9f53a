"""Declarations of parameters that the service would refuse."""

from drivetrain.targets.sagemaker.document.document import from_json
from drivetrain.targets.sagemaker.document.parameters import problems


def test_more_choices_than_the_service_takes() -> None:
    def told(count: int) -> list[str]:
        choices = [str(n) for n in range(count)]
        given = {"Steps": [], "Parameters": [{"Name": "P", "Type": "String", "EnumValues": choices}]}
        return list(problems(from_json(given).parameters[0]))

    assert told(16) == []
    assert told(17) == ["parameters.P.EnumValues: 17 values; at most 16."]
