"""A group of models is one and the same by its name and by its ARN."""

from drivetrain.spec.model_groups import ModelGroup, model_group

ARN = "arn:aws-us-gov:sagemaker:us-gov-west-1:999999999999:model-package-group/digits"


def test_an_arn_names_the_account_of_a_group() -> None:
    group = model_group(ARN)
    assert group == ModelGroup(name="digits", partition="aws-us-gov", region="us-gov-west-1", account="999999999999")
    assert group.is_of("999999999999", "us-gov-west-1")
    assert not group.is_of("999999999999", "us-gov-east-1")
    assert not group.is_of("123456789012", "us-gov-west-1")


def test_a_plain_name_belongs_to_the_caller() -> None:
    assert model_group("digits") == ModelGroup(name="digits")
    assert model_group("digits").is_of("123456789012", "eu-west-1")


def test_arns_of_other_resources_are_refused() -> None:
    version = ARN.replace("package-group/digits", "package/digits/1")
    assert model_group(version).name == version
