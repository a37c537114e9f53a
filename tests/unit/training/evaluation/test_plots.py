from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from typing import Any

from drivetrain.training.evaluation.plots import pictures

ROC = {"kind": "roc", "x": [0.0, 0.5, 1.0], "y": [0.0, 0.75, 1.0], "x_label": "false", "y_label": "true"}
SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def matrix(side: int) -> dict[str, Any]:
    names = [f"<class & {number}>" for number in range(side)]
    cells = [[9 if row == column else 1 for column in range(side)] for row in range(side)]
    return {"kind": "matrix", "rows": names, "columns": names, "cells": cells}


def test_a_curve_with_its_number_in_the_title() -> None:
    drawn = pictures({"roc_curve": ROC}, {"auroc": {"value": 0.875}})
    assert list(drawn) == ["roc_curve.svg"]
    root = ElementTree.fromstring(drawn["roc_curve.svg"])
    assert "ROC curve, AUROC 0.875" in texts(drawn["roc_curve.svg"])
    assert {"false", "true"} <= set(texts(drawn["roc_curve.svg"]))
    (curve,) = [path for path in root.iter(f"{SVG}path") if path.get("class") == "curve"]
    assert curve.get("d") == "M56,344 L206,119 L356,44"
    assert any(path.get("class") == "reference" for path in root.iter(f"{SVG}path"))


def test_curves_of_classes_share_a_picture() -> None:
    curves = {f"roc_curve_class_{number}": ROC for number in range(12)}
    drawn = pictures(curves, {"auroc_class_3": {"value": 0.5}})
    assert list(drawn) == ["roc_curve.svg"]
    found = texts(drawn["roc_curve.svg"])
    assert "class 3, AUROC 0.5" in found
    assert "class 9" in found and "class 10" not in found
    assert "and 2 more in curves.json" in found


def test_a_matrix_with_names_that_are_markup() -> None:
    drawn = pictures({"confusion_matrix": matrix(3)}, {})
    root = ElementTree.fromstring(drawn["confusion_matrix.svg"])
    assert texts(drawn["confusion_matrix.svg"]).count("9") == 3
    assert len(list(root.iter(f"{SVG}rect"))) == 1 + 9
    titles = [element.text for element in root.iter(f"{SVG}title")]
    assert "target <class & 0>, predicted <class & 1>: 1 (9.1%)" in titles


def test_a_matrix_too_large_for_numbers_and_one_too_large_for_a_picture() -> None:
    assert "9" not in texts(pictures({"m": matrix(50)}, {})["m.svg"])
    assert pictures({"m": matrix(101)}, {}) == {}
    assert pictures({"m": matrix(0)}, {}) == {}


def test_what_cannot_be_drawn_is_left_out() -> None:
    broken = {"a": {**ROC, "x": [0.0, 1.0]}, "b": {**ROC, "y": [0.0, math.nan, 1.0]}, "c": {"kind": "roc"}}
    assert pictures(broken, {}) == {}


def test_a_curve_of_one_point_and_names_that_are_no_file_names() -> None:
    drawn = pictures({"../own curve": {"kind": "x", "x": [5], "y": [7]}}, {})
    (name,) = drawn
    assert "/" not in name and not name.startswith(".")
    ElementTree.fromstring(drawn[name])


def test_names_with_control_characters_and_changes_of_the_writing_direction() -> None:
    curve = {**ROC, "x_label": "false\x00\x1b", "y_label": "model\u202egpj.exe\u2066"}
    drawn = pictures({"roc": curve}, {})["roc.svg"]
    assert {"false\ufffd\ufffd", "model\ufffdgpj.exe\ufffd"} <= set(texts(drawn))
