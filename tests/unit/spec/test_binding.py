"""Values of parameters, given as text or as they are."""

from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.spec.binding import bind
from drivetrain.targets.sagemaker.document.document import from_json


def bound(given: Any, type: str = "String", **fields: Any) -> Any:
    definition = from_json({"Steps": [], "Parameters": [{"Name": "P", "Type": type, **fields}]})
    return bind(definition.parameters, {} if given is None else {"P": given})["P"]


@pytest.mark.parametrize(
    ("type", "given", "value"),
    [
        ("String", "abc", "abc"),
        ("String", "", ""),
        ("String", "3", "3"),
        ("Integer", "3", 3),
        ("Integer", " -3 ", -3),
        ("Integer", 3, 3),
        ("Integer", 3.0, 3),
        ("Float", "0.5", 0.5),
        ("Float", "1e-3", 0.001),
        ("Float", "3", 3.0),
        ("Float", 3, 3.0),
        ("Boolean", "true", True),
        ("Boolean", "False", False),
        ("Boolean", "1", True),
        ("Boolean", "0", False),
        ("Boolean", True, True),
    ],
)
def test_values_have_the_type_of_the_parameter(type: str, given: Any, value: Any) -> None:
    result = bound(given, type)
    assert result == value and result.__class__ is value.__class__
    default = bound(None, type, DefaultValue=given)
    assert default == value and default.__class__ is value.__class__


@pytest.mark.parametrize(
    ("type", "given", "allowed"),
    [
        ("String", 3, "text of at most 1,024 characters"),
        ("Integer", "3.5", "a whole number such as 3"),
        ("Integer", "three", "a whole number"),
        ("Integer", "1_000", "a whole number"),
        ("Integer", "٣", "a whole number"),
        ("Integer", "9" * 5_000, "a whole number"),
        ("Integer", 3.5, "a whole number"),
        ("Integer", float("inf"), "a whole number"),
        ("Integer", True, "a whole number"),
        ("Float", "abc", "a finite number such as 0.5"),
        ("Float", "nan", "a finite number"),
        ("Float", "1e999", "a finite number"),
        ("Float", "1_0.0", "a finite number"),
        ("Float", [1], "a finite number"),
        ("Float", False, "a finite number"),
        ("Boolean", "yes", "true or false"),
        ("Boolean", 1, "true or false"),
        ("Boolean", {}, "true or false"),
    ],
)
def test_values_of_another_type_are_refused(type: str, given: Any, allowed: str) -> None:
    with pytest.raises(UserError) as caught:
        bound(given, type)
    assert str(caught.value).startswith("parameter 'P' is ") and f"Allowed: {allowed}" in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("type", "given"), [("String", "x" * 1_025), ("Float", "0." + "1" * 1_023)])
def test_a_value_too_long_for_a_start_is_refused_with_what_to_do(type: str, given: str) -> None:
    with pytest.raises(UserError, match=r"1,025 characters; at most 1,024 can be given at start\. Put it in a file"):
        bound(given, type)


def test_choices() -> None:
    assert bound("Approved", EnumValues=["Approved", "Rejected"]) == "Approved"
    assert bound("2", "Integer", EnumValues=["1", 2]) == 2
    with pytest.raises(UserError, match=r"parameter 'P' is 'approved'\. Did you mean 'Approved'\?"):
        bound("approved", EnumValues=["Approved", "Rejected"])
    with pytest.raises(UserError, match=r"parameter 'P' is 'Old'\. Allowed: New"):
        bound(None, EnumValues=["New"], DefaultValue="Old")


def test_an_unknown_parameter_type_is_refused_when_bound() -> None:
    with pytest.raises(UserError, match=r"parameter 'P' has type 'Date'\. Allowed: String, Integer, Float, Boolean\."):
        bound("x", "Date")


def test_binding_keeps_order_fills_defaults_and_reports_missing_values() -> None:
    parameters = [
        {"Name": "A", "Type": "String"},
        {"Name": "B", "Type": "Integer", "DefaultValue": 2},
        {"Name": "C", "Type": "Float"},
    ]
    definition = from_json({"Steps": [], "Parameters": parameters})
    assert list(bind(definition.parameters, {"C": "1", "A": "x"}).items()) == [("A", "x"), ("B", 2), ("C", 1.0)]
    with pytest.raises(UserError, match=r"no value for A \(String\), C \(Float\): give them as NAME=VALUE\."):
        bind(definition.parameters, {})
    with pytest.raises(UserError, match=r"no value for C \(Float\): give it as"):
        bind(definition.parameters, {"A": "x"})


def test_undeclared_names_are_refused() -> None:
    definition = from_json({"Steps": [], "Parameters": [{"Name": "Rate", "Type": "Float", "DefaultValue": 1.0}]})
    with pytest.raises(UserError, match=r"no parameter 'rate'\. Did you mean 'Rate'\? Allowed: Rate\."):
        bind(definition.parameters, {"rate": 1})


def test_too_many_parameters_are_refused() -> None:
    names = [f"p{n}" for n in range(201)]
    definition = from_json({"Steps": [], "Parameters": [{"Name": name, "Type": "String"} for name in names]})
    with pytest.raises(UserError, match="201 parameters are given; at most 200"):
        bind(definition.parameters, dict.fromkeys(names, "x"))
